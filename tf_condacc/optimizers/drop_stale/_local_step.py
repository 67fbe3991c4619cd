"""The local step: a step variable's value before any variable is read for the loss."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator

import tensorflow as tf

from tf_condacc._host import host_int64, on_host
from tf_condacc.optimizers.drop_stale._checks import GLOBAL_STEP_ADVICE, check_control_flow
from tf_condacc.optimizers.drop_stale._ordering import (
    Loss,
    at_operation,
    read_after,
    run_before_reads,
    settled,
    users_of,
)

_GLOBAL_STEP = tf.compat.v1.GraphKeys.GLOBAL_STEP


class LocalSteps:
    """The local steps of one optimizer: of each graph, and eagerly of each thread, the last one.

    Args:
        optimizer: Name of the optimizer, for messages.
    """

    def __init__(self, optimizer: str) -> None:
        self._optimizer = optimizer
        self._thread = threading.local()
        # Names of tensors, which would keep their graph alive, or how to read the local step.
        self._in_graphs: weakref.WeakKeyDictionary[tf.Graph, str | DeferredLocalStep] = (
            weakref.WeakKeyDictionary()
        )

    @contextlib.contextmanager
    def minimizing(self, step: tf.Variable | None) -> Iterator[None]:
        """Tells the step to read eagerly and in functions, where graphs have no global step."""
        self._thread.minimized_step = step
        try:
            yield
        finally:
            self._thread.minimized_step = None

    def read_before(self, loss: Loss, step: tf.Variable | None = None) -> Loss:
        """Reads the step variable, or sees to it that it will be read, before a loss is computed.

        Args:
            loss: The loss, a tensor or a function.
            step: The step variable. By default the global step; in a graph that has none, the one
                that is passed to `compared_with`.

        Returns:
            The loss whose gradients are to be computed.

        Raises:
            ValueError: There is no step to read, eagerly or in a function.
            TypeError: The step variable cannot be used in branches.
        """
        step = self._step_to_read() if step is None else step
        if tf.executing_eagerly():
            self._thread.local_step = step.read_value()
            return loss
        if not callable(loss):
            loss = tf.convert_to_tensor(loss)
        if step is None:
            graph = tf.compat.v1.get_default_graph() if callable(loss) else loss.graph
            self._in_graphs[graph] = deferred = DeferredLocalStep()
            return deferred.watch(loss)
        check_control_flow([step])
        local_step = read_local_step(step, None if callable(loss) else loss.op)
        self._in_graphs[local_step.graph] = local_step.name
        return read_after(local_step.op, loss, step)

    def compared_with(self, step: tf.Variable) -> tf.Tensor:
        """Returns the local step that the given step variable is to be compared with.

        Returns:
            An int64 scalar tensor.

        Raises:
            ValueError: No local step was read in this graph, or eagerly in this thread, or it was
                that of a step of another dtype.
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
        step = find_global_step()
        if step is not None or not (tf.executing_eagerly() or tf.inside_function()):
            return step
        step = getattr(self._thread, "minimized_step", None)
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
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        while graph is not None:
            if graph in self._in_graphs:
                found = self._in_graphs[graph]
                if isinstance(found, DeferredLocalStep):
                    return found.read(graph, step)
                return graph.get_tensor_by_name(found)
            graph = getattr(graph, "outer_graph", None)
        raise ValueError(
            f"Optimizer '{self._optimizer}' knows no local step: call compute_gradients() before "
            "apply_gradients(), in the same graph, or call minimize()."
        )


def find_global_step() -> tf.Variable | None:
    """Finds the global step of the default graph, or of a graph that it is a function of.

    ``tf.compat.v1.train.get_global_step`` looks in the collection GLOBAL_STEP, and else for a
    tensor called ``global_step:0``. For a step that the program made itself that tensor is a
    reference or a handle. This function finds the variable of that name instead, in whatever
    collection it is.

    Returns:
        A variable, or None if there is none.

    Raises:
        TypeError: The variable of that name is no scalar of integers.
    """
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if graph.get_collection(_GLOBAL_STEP):
            step = tf.compat.v1.train.get_global_step(graph)
        else:
            step = _variable_named_global_step(graph)
        if isinstance(step, tf.Variable):
            tf.compat.v1.train.assert_global_step(step)
            return step
        graph = getattr(graph, "outer_graph", None)
    return None


def _variable_named_global_step(graph: tf.Graph) -> tf.Variable | None:
    items = (item for key in graph.get_all_collection_keys() for item in graph.get_collection(key))
    variables = (item for item in items if isinstance(item, tf.Variable))
    return next((v for v in variables if v.name == f"{_GLOBAL_STEP}:0"), None)


def read_local_step(step: tf.Variable, loss_op: tf.Operation | None) -> tf.Tensor:
    """Builds the read of a step variable where a loss is; None stands for a loss not built yet.

    A graph for predictions can be frozen out of one for training: these are operations of
    TensorFlow, and are not colocated with the loss.
    """
    with at_operation(loss_op):
        with on_host():
            # The sum is no reference to a variable that may change.
            value = tf.add(step.read_value(), 0)
        return settled(value, name="local_step")


class DeferredLocalStep:
    """The local step of gradients whose step variable is not known when they are computed.

    In a graph it can be read before a forward pass that was built earlier. Names stand for tensors
    here, which would keep their graph alive.
    """

    def __init__(self) -> None:
        self._scope = tf.get_current_name_scope()
        self._loss: str | None = None
        self._local_steps: dict[str, str] = {}  # by the name of the step variable

    def watch(self, loss: Loss) -> Loss:
        """Notes the loss, a tensor or a function, and returns what stands for it."""
        if callable(loss):
            return lambda: self.watch(tf.convert_to_tensor(loss()))
        self._loss = loss.name
        return loss

    def read(self, graph: tf.Graph, step: tf.Variable) -> tf.Tensor:
        """Returns the step variable's value before any variable is read for the loss."""
        if step.name not in self._local_steps:
            loss_op = graph.get_tensor_by_name(self._loss).op
            with graph.as_default(), graph.name_scope(f"{self._scope}/" if self._scope else ""):
                local_step = read_local_step(step, loss_op)
            run_before_reads(local_step.op, loss_op, besides=users_of(step, graph))
            self._local_steps[step.name] = local_step.name
        return graph.get_tensor_by_name(self._local_steps[step.name])
