"""Drops the gradients of workers that are too many steps behind.

Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.training import optimizer as tf_optimizer

from tf_condacc._ordering import at_operation, read_after, settled, settled_gradients
from tf_condacc._stale_counting import (
    COUNTER_NAME,
    Counting,
    make_counting,
    outermost_graph,
    summarize,
)
from tf_condacc._staleness_gate import StalenessGate
from tf_condacc._update_checks import (
    GLOBAL_STEP_ADVICE,
    check_control_flow,
    check_gradients,
    check_step,
)
from tf_condacc._wrapped_optimizer import SavedLikeWrapped


class DropStaleGradientOptimizer(SavedLikeWrapped):
    """Wraps an optimizer, and drops gradients that are too many steps behind when they are ready.

    Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``: the global step is read when a worker
    begins to compute gradients (the local step), and once more when they are ready. If it has moved
    on by more than `staleness` meanwhile, nothing is applied, the global step stays as it is, and
    the variable ``stale_counter`` is incremented. Otherwise the wrapped optimizer applies the
    gradients and increments the global step.

    Differs from it on purpose: the local step is read before any variable is read for the loss;
    the decision and the step it leads to are atomic among all optimizers, sessions and workers that
    share the step variable; a graph may hold any number of instances and each may apply several
    times; `num_dropped`, `num_accepted` and a histogram summary of the staleness are new; it works
    eagerly and in ``tf.function``, with a callable loss and a step given to `minimize`.

    Args:
        opt: The optimizer to wrap, a ``tf.compat.v1.train.Optimizer``.
        staleness: How many steps gradients may be behind: an integer, or a scalar tensor or
            variable of the global step's dtype. With a negative number all are dropped.
        use_locking: Handed to the base class only, as in the original.
        name: Name of this optimizer.
    """

    def __init__(self, opt, staleness, use_locking=False, name="DropStaleGradient"):
        super().__init__(use_locking, name)
        self._opt = opt
        self._staleness = staleness
        self._countings: dict[Any, Counting] = {}
        # Of each graph the name of the local step: the tensor would keep the graph alive.
        self._local_steps: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._thread = threading.local()
        self._lock = threading.Lock()
        # The wrapped optimizer keeps what belongs to one call on itself, and makes its slots when
        # it finds none: not for two threads at once.
        self._wrapped_in_use = threading.RLock()

    def minimize(
        self,
        loss,
        global_step=None,
        var_list=None,
        gate_gradients=tf_optimizer.Optimizer.GATE_OP,
        aggregation_method=None,
        colocate_gradients_with_ops=False,
        name=None,
        grad_loss=None,
    ):
        """Computes gradients and applies them unless they have become stale.

        Arguments, result and errors are those of `compute_gradients` and `apply_gradients`. Eagerly
        and in a ``tf.function`` the local step is `global_step` read before the loss is computed.
        """
        self._thread.minimized_step = global_step
        try:
            return super().minimize(
                loss,
                global_step=global_step,
                var_list=var_list,
                gate_gradients=gate_gradients,
                aggregation_method=aggregation_method,
                colocate_gradients_with_ops=colocate_gradients_with_ops,
                name=name,
                grad_loss=grad_loss,
            )
        finally:
            self._thread.minimized_step = None

    def compute_gradients(self, loss, *args, **kwargs):
        """Reads the local step, and then computes gradients with the wrapped optimizer.

        In a graph the local step is that graph's global step, whatever step is passed to
        `apply_gradients`; it is read before any variable that `loss` depends on, also where control
        dependencies such as UPDATE_OPS are in force.

        Args:
            loss: Scalar tensor, or a function that returns one. Eagerly it must be a function.
            *args: Passed to the wrapped optimizer's `compute_gradients`.
            **kwargs: Likewise, but for `global_step`: the step variable to read where there is no
                graph with a global step, eagerly and in a ``tf.function``.

        Returns:
            The wrapped optimizer's list of (gradient, variable) pairs.

        Raises:
            ValueError: There is no global step.
            TypeError: Reference variables meet control flow of version 2.
        """
        step = self._step_to_read(kwargs.pop("global_step", None))
        if tf.executing_eagerly():
            self._thread.local_step = step.read_value()
            return self._opt.compute_gradients(loss, *args, **kwargs)
        check_control_flow([step])
        if not callable(loss):
            loss = tf.convert_to_tensor(loss)
        with at_operation(None if callable(loss) else loss.op):
            # A sum, not a reference to what may change; standard operations, so that a graph for
            # predictions can be frozen out of this one.
            local_step = settled(tf.add(step.read_value(), 0), name="local_step")
        self._local_steps[local_step.graph] = local_step.name
        loss = read_after(local_step.op, loss, step)
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Applies gradients if they are not too many steps behind, and else drops them.

        Args:
            grads_and_vars: Pairs as `compute_gradients` returns them; any iterable. Gradients may
                be tensors, ``tf.IndexedSlices`` or None.
            global_step: The step variable, a scalar of dtype int64 or int32. It is read when all
                gradients are ready, and incremented if they are applied.
            name: Name of the wrapped optimizer's operation.

        Returns:
            A float32 scalar tensor: how many times gradients have been dropped up to now. Its
            operation is the training operation. Exact up to 2**24; `num_dropped` has no such limit.

        Raises:
            ValueError: `global_step` is None, not a variable, not a scalar, or not of the dtype of
                the local step; `compute_gradients` was not called before; there are no gradients.
            TypeError: The `staleness` given to the constructor is not an integer of the step's
                dtype, or reference variables meet control flow of version 2.
        """
        grads_and_vars = tuple(grads_and_vars)
        check_gradients(grads_and_vars)
        check_step(global_step)
        local_step = self._local_step_for(global_step)
        limit = self._limit(global_step)
        check_control_flow([global_step, *[variable for _, variable in grads_and_vars]])
        counting, gate = self._counting_with(global_step)
        with (
            tf.control_dependencies(settled_gradients(grads_and_vars)),
            tf_ops.colocate_with(global_step),
        ):
            decision = gate.decide(tf.cast(local_step, tf.int64), limit)

        def accept():
            with self._wrapped_in_use:
                update = self._opt.apply_gradients(grads_and_vars, global_step, name=name)
            with tf.control_dependencies([] if tf.executing_eagerly() else [update]):
                return tf.constant(0.0)

        try:
            num_dropped = tf.cond(decision.accepted, accept, lambda: tf.constant(1.0))
        except BaseException:
            # Eagerly the error may be kept, and the reservation with it.
            if tf.executing_eagerly():
                gate.end(decision.reservation, applied=False)
            raise
        with tf_ops.colocate_with(global_step):
            ended = gate.end(decision.reservation, applied=tf.equal(num_dropped, 0.0))
        with tf.control_dependencies([] if ended is None else [ended]):
            count = tf.compat.v1.assign_add(
                counting.stale_counter, num_dropped, use_locking=True, name="AssignAdd"
            )
        return count if isinstance(count, tf.Tensor) else count.read_value()

    def get_slot(self, *args, **kwargs):
        """A slot variable of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """The names of the wrapped optimizer's slots."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        """The variables of the wrapped optimizer and ``stale_counter``.

        The original returns an empty list.
        """
        counting = self._countings.get(outermost_graph())
        counters = [] if counting is None else [counting.stale_counter]
        return [*self._opt.variables(), *counters]

    def num_dropped(self, name=None):
        """Counts how many times gradients were dropped.

        Not in the original. Counted on the step's device since the process there began, over all
        sessions and workers; not saved in checkpoints.

        Args:
            name: Optional name of the operation.

        Returns:
            An int64 scalar tensor.

        Raises:
            ValueError: `apply_gradients` was not called before, in this graph or eagerly.
        """
        return self._sum_over_gates(StalenessGate.num_dropped, name)

    def num_accepted(self, name=None):
        """Counts how many times gradients were applied.

        Gradients that were accepted but whose application failed or was cancelled do not count. The
        rest is as for `num_dropped`.
        """
        return self._sum_over_gates(StalenessGate.num_accepted, name)

    def _trackable_children(self, *args, **kwargs):
        """What a checkpoint holds, beside the slots."""
        children = super()._trackable_children(*args, **kwargs)
        counting = self._countings.get(outermost_graph())
        if counting is not None:
            children[COUNTER_NAME] = counting.stale_counter
        return children

    def _lookup_dependency(self, name, *args, **kwargs):
        if name == COUNTER_NAME and outermost_graph() in self._countings:
            return self._countings[outermost_graph()].stale_counter
        return super()._lookup_dependency(name, *args, **kwargs)

    def _step_to_read(self, given):
        step = given
        if step is None:
            step = tf.compat.v1.train.get_global_step()
        if step is None and (tf.executing_eagerly() or tf.inside_function()):
            step = getattr(self._thread, "minimized_step", None)
        if step is not None:
            return step
        raise ValueError(
            f"Optimizer '{self.get_name()}' found no global step to read before gradients are "
            f"computed: {GLOBAL_STEP_ADVICE}."
        )

    def _local_step_for(self, step):
        """The local step, checked to be of the step's dtype."""
        local_step = self._local_step()
        if local_step.dtype == step.dtype.base_dtype:
            return local_step
        raise ValueError(
            f"Optimizer '{self.get_name()}' expects global_step to have the dtype of the step that "
            f"compute_gradients() read, {local_step.dtype.name}; got '{step.name}' of dtype "
            f"{step.dtype.base_dtype.name}."
        )

    def _local_step(self):
        """What compute_gradients() read last, in this graph or eagerly in this thread."""
        if tf.executing_eagerly():
            local_step = getattr(self._thread, "local_step", None)
            if local_step is not None:
                return local_step
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        while graph is not None:
            if graph in self._local_steps:
                return graph.get_tensor_by_name(self._local_steps[graph])
            graph = getattr(graph, "outer_graph", None)
        raise ValueError(
            f"Optimizer '{self.get_name()}' knows no local step: call compute_gradients() before "
            "apply_gradients(), in the same graph, or call minimize()."
        )

    def _limit(self, step):
        """The limit as an int64 tensor."""
        dtype = step.dtype.base_dtype
        try:
            limit = tf.convert_to_tensor(self._staleness, dtype=dtype)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Optimizer '{self.get_name()}' expects staleness to be an integer of the global "
                f"step's dtype {dtype.name}, got {self._staleness!r}."
            ) from error
        if not limit.shape.is_compatible_with(()):
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects a scalar staleness, got shape "
                f"{limit.shape}."
            )
        return tf.cast(limit, tf.int64)

    def _counting_with(self, step):
        """What counts in this graph or eagerly, and the step's gate; both made if need be."""
        key = outermost_graph()
        with self._lock, tf.init_scope():
            if key not in self._countings:
                self._countings[key] = make_counting(step)
                self._handle_deferred_dependencies(COUNTER_NAME, self._countings[key].stale_counter)
            counting = self._countings[key]
            if id(step) not in counting.gates:
                gate = StalenessGate(step, counting.name)
                counting.gates[id(step)] = gate
                if not tf.executing_eagerly():
                    summarize(counting.stale_counter, step, gate)
        return counting, counting.gates[id(step)]

    def _sum_over_gates(self, count, name):
        counting = self._countings.get(outermost_graph())
        if counting is None:
            raise ValueError(
                f"Optimizer '{self.get_name()}' has counted nothing yet: call apply_gradients() "
                "before, in the same graph."
            )
        with tf.name_scope(name or count.__name__):
            return tf.add_n([count(gate) for gate in counting.gates.values()], name="total")
