"""The local step, which is the value of a step variable before the loss reads any variable."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.host import check_control_flow, host_int64, on_host
from tf_condacc._optimizers.drop_stale.ordering import (
    at_operation,
    read_after,
    run_before_reads,
    settled,
    users_of,
)
from tf_condacc._typing import Loss

GLOBAL_STEP_ADVICE = (
    "make one with tf.compat.v1.train.get_or_create_global_step() and pass it as global_step"
)
_GLOBAL_STEP = v1.GraphKeys.GLOBAL_STEP


class LocalSteps:
    """The latest local steps that one optimizer has read.

    There is one local step for each graph and, in eager mode, one for each thread.

    Args:
        optimizer: Name of the optimizer, for error messages.
    """

    def __init__(self, optimizer: str) -> None:
        self._optimizer = optimizer
        self._thread = threading.local()
        # The name of the local step's tensor (the tensor itself would keep the graph alive), or the
        # object that builds the tensor later.
        self._in_graphs: weakref.WeakKeyDictionary[tf.Graph, str | DeferredLocalStep] = (
            weakref.WeakKeyDictionary()
        )

    @contextlib.contextmanager
    def minimizing(self, step: tf.Variable | None) -> Iterator[None]:
        """Returns a context in which `step` is read in eager mode and in functions.

        Args:
            step: The step variable; None to read the global step.
        """
        self._thread.minimized_step = step
        try:
            yield
        finally:
            self._thread.minimized_step = None

    def read_before(self, loss: Loss, step: tf.Variable | None = None) -> Loss:
        """Reads the step variable before the loss is computed, or arranges for it to be read.

        Args:
            loss: The loss, a scalar tensor or a function that returns one.
            step: The step variable. By default it is the global step. In a graph without a global
                step, it is the variable that is later passed to `compared_with`.

        Returns:
            The loss whose gradients are to be computed.

        Raises:
            ValueError: There is no step to read, in eager mode or in a function.
            TypeError: The step variable cannot be used in a branch of a conditional.
        """
        step = self._step_to_read() if step is None else step
        if step is not None and tf.executing_eagerly():
            self._thread.local_step = step.read_value()
            return loss
        if not callable(loss):
            loss = tf.convert_to_tensor(loss)
        if step is None:
            graph = v1.get_default_graph() if callable(loss) else loss.graph
            self._in_graphs[graph] = deferred = DeferredLocalStep()
            return deferred.watch(loss)
        check_control_flow([step])
        local_step = read_local_step(step, None if callable(loss) else loss.op)
        self._in_graphs[local_step.graph] = local_step.name
        return read_after(local_step.op, loss, step)

    def compared_with(self, step: tf.Variable) -> tf.Tensor:
        """Returns the local step to compare with a step variable.

        Returns:
            The local step: `[] int64`.

        Raises:
            ValueError: No local step was read in this graph or, in eager mode, in this thread; or
                the local step has another dtype than the step variable.
        """
        local_step = self._find(step)
        if local_step.dtype == step.dtype.base_dtype:
            return host_int64(local_step)
        raise ValueError(
            f"Optimizer '{self._optimizer}' expects global_step to have the dtype of the step that "
            f"compute_gradients() read, {local_step.dtype.name}; got '{step.name}' of dtype "
            f"{step.dtype.base_dtype.name}."
        )

    def _step_to_read(self) -> tf.Variable | None:
        """Returns the step variable to read; None only in a graph without a global step."""
        if not (tf.executing_eagerly() or tf.inside_function()):
            return find_global_step()
        step = getattr(self._thread, "minimized_step", None)
        if step is None:
            step = find_global_step()
        if step is not None:
            return step
        raise ValueError(
            f"Optimizer '{self._optimizer}' found no global step to read before gradients are "
            f"computed: {GLOBAL_STEP_ADVICE}."
        )

    def _find(self, step: tf.Variable) -> tf.Tensor:
        if tf.executing_eagerly():
            local_step = getattr(self._thread, "local_step", None)
            if local_step is not None:
                return local_step
        graph = None if tf.executing_eagerly() else v1.get_default_graph()
        while graph is not None:
            if graph in self._in_graphs:
                found = self._in_graphs[graph]
                if isinstance(found, DeferredLocalStep):
                    return found.read(graph, step)
                return graph.get_tensor_by_name(found)
            graph = getattr(graph, "outer_graph", None)
        raise ValueError(
            f"Optimizer '{self._optimizer}' has no local step: call compute_gradients() before "
            "apply_gradients(), in the same graph, or call minimize()."
        )


def find_global_step() -> tf.Variable | None:
    """Finds the global step of the default graph, or of the graphs around a function's body.

    ``tf.compat.v1.train.get_global_step`` looks in the collection GLOBAL_STEP, and then for a
    tensor called ``global_step:0``. If the program made the step variable itself, that tensor is a
    reference or a handle. This function looks for a variable of that name in all collections
    instead.

    Returns:
        The variable, or None if there is none.

    Raises:
        TypeError: The variable of that name is not a scalar of an integer type.
    """
    graph = v1.get_default_graph()
    while graph is not None:
        if graph.get_collection(_GLOBAL_STEP):
            step = v1.train.get_global_step(graph)
        else:
            step = _variable_named_global_step(graph)
        if isinstance(step, tf.Variable):
            v1.train.assert_global_step(step)
            return step
        graph = getattr(graph, "outer_graph", None)
    return None


def _variable_named_global_step(graph: tf.Graph) -> tf.Variable | None:
    items = (item for key in graph.get_all_collection_keys() for item in graph.get_collection(key))
    variables = (item for item in items if isinstance(item, tf.Variable))
    return next((v for v in variables if v.name == f"{_GLOBAL_STEP}:0"), None)


def read_local_step(step: tf.Variable, loss_op: tf.Operation | None) -> tf.Tensor:
    """Builds the read of a step variable, in the control flow context of the loss.

    Only operations of TensorFlow are used, and none is colocated with the loss. A graph for
    predictions that is extracted from the training graph therefore works without this package.

    Args:
        step: The step variable.
        loss_op: Operation that computes the loss; None if the loss is not built yet.

    Returns:
        The local step, of the step variable's dtype: `[] int32 or int64`.
    """
    with at_operation(loss_op):
        with on_host():
            # Reading a reference variable gives a reference, whose value can change. A sum is new.
            value = tf.add(step.read_value(), 0)
        return settled(value, name="local_step")


class DeferredLocalStep:
    """The local step of gradients whose step variable is not known when they are computed.

    In a graph, the read of the step variable can be built later and still run before the forward
    pass. Tensors are stored by their names, because a tensor would keep its graph alive.
    """

    def __init__(self) -> None:
        self._scope = tf.get_current_name_scope()
        self._loss: str | None = None
        self._local_steps: dict[str, str] = {}  # Keys are the names of the step variables.

    def watch(self, loss: Loss) -> Loss:
        """Stores the name of the loss, and returns the loss to differentiate."""
        if callable(loss):
            return lambda: self.watch(tf.convert_to_tensor(loss()))
        self._loss = loss.name
        return loss

    def read(self, graph: tf.Graph, step: tf.Variable) -> tf.Tensor:
        """Returns the value of the step variable before the loss reads any variable.

        Args:
            graph: The graph of the loss.
            step: The step variable.
        """
        if step.name not in self._local_steps:
            loss_op = graph.get_tensor_by_name(self._loss).op
            with graph.as_default(), graph.name_scope(f"{self._scope}/" if self._scope else ""):
                local_step = read_local_step(step, loss_op)
            run_before_reads(local_step.op, loss_op, besides=users_of(step, graph))
            self._local_steps[step.name] = local_step.name
        return graph.get_tensor_by_name(self._local_steps[step.name])
