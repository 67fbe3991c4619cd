"""Drops the gradients of workers that are too many steps behind.

Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.training import optimizer as tf_optimizer

from tf_condacc._host import host_int64, on_host
from tf_condacc._typing import GradientAndVariable, TensorLike
from tf_condacc.optimizers._wrapper import OptimizerWrapper
from tf_condacc.optimizers.drop_stale._checks import check_control_flow, check_gradients, check_step
from tf_condacc.optimizers.drop_stale._counting import (
    COUNTER_NAME,
    Counting,
    make_counting,
    outermost_graph,
    summarize,
)
from tf_condacc.optimizers.drop_stale._gate import StalenessGate
from tf_condacc.optimizers.drop_stale._gated_update import update_unless_late
from tf_condacc.optimizers.drop_stale._local_step import LocalSteps
from tf_condacc.optimizers.drop_stale._ordering import Loss, settled_gradients


class DropStaleGradientOptimizer(OptimizerWrapper):
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

    With a `staleness` of 0, all other updates are dropped while an accepted one is being applied.
    So the wrapped optimizer must not wait for other workers, in a queue or a take for instance. If
    an update takes longer than the environment variable TF_CONDACC_STALL_WARNING_SECS says (60 by
    default, 0 for never), one warning is logged where the step is.

    Args:
        opt: The optimizer to wrap, a ``tf.compat.v1.train.Optimizer``.
        staleness: How many steps gradients may be behind: an integer, or a scalar tensor or
            variable of the global step's dtype. With a negative number all are dropped.
        use_locking: Handed to the base class only, as in the original.
        name: Name of this optimizer.
    """

    def __init__(
        self,
        opt: tf.compat.v1.train.Optimizer,
        staleness: TensorLike,
        use_locking: bool = False,
        name: str = "DropStaleGradient",
    ) -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._staleness = staleness
        self._countings: dict[Any, Counting] = {}
        self._local_steps = LocalSteps(self.get_name())
        self._lock = threading.Lock()
        # The wrapped optimizer keeps what belongs to one call on itself, and makes its slots when
        # it finds none: not for two threads at once.
        self._wrapped_in_use = threading.RLock()

    def minimize(
        self,
        loss: Loss,
        global_step: tf.Variable | None = None,
        var_list: Iterable[tf.Variable] | Callable[[], Iterable[tf.Variable]] | None = None,
        gate_gradients: int = tf_optimizer.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes gradients and applies them unless they have become stale.

        Arguments, result and errors are those of `compute_gradients` and `apply_gradients`. Eagerly
        and in a ``tf.function`` the local step is `global_step` read before the loss is computed.
        """
        with self._local_steps.minimizing(global_step):
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

    def compute_gradients(self, loss: Loss, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        """Reads the local step, and then computes gradients with the wrapped optimizer.

        In a graph the local step is that graph's global step, whatever step is passed to
        `apply_gradients`: the one in the collection GLOBAL_STEP, or else a variable called
        ``global_step``. If there is none, `apply_gradients` reads the step that is passed to it. In
        either case the step is read before any variable that `loss` depends on, also where control
        dependencies such as UPDATE_OPS are in force.

        Args:
            loss: Scalar tensor, or a function that returns one. Eagerly it must be a function.
            *args: Passed to the wrapped optimizer's `compute_gradients`.
            **kwargs: Passed on too, apart from `global_step`: the step variable to read, for eager
                mode and ``tf.function``, where there may be no graph with a global step.

        Returns:
            The wrapped optimizer's list of (gradient, variable) pairs.

        Raises:
            ValueError: There is no global step, eagerly or in a ``tf.function``.
            TypeError: The variable called ``global_step`` is no integer scalar, or reference
                variables meet control flow of version 2.
        """
        loss = self._local_steps.read_before(loss, kwargs.pop("global_step", None))
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradientAndVariable],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Tensor:
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
        check_control_flow([global_step, *[variable for _, variable in grads_and_vars]])
        local_step = self._local_steps.compared_with(global_step)
        limit = self._limit(global_step)
        counting, gate = self._counting_with(global_step)

        def update() -> Any:
            with self._wrapped_in_use:
                return self._opt.apply_gradients(grads_and_vars, global_step, name=name)

        after = settled_gradients(grads_and_vars)
        num_dropped = update_unless_late(gate, local_step, limit, update, after)
        count = tf.compat.v1.assign_add(
            counting.stale_counter, num_dropped, use_locking=True, name="AssignAdd"
        )
        return count if isinstance(count, tf.Tensor) else count.read_value()

    def variables(self) -> list[tf.Variable]:
        """The variables of the wrapped optimizer and ``stale_counter``.

        The original returns an empty list.
        """
        counting = self._countings.get(outermost_graph())
        counters = [] if counting is None else [counting.stale_counter]
        return [*self._opt.variables(), *counters]

    def num_dropped(self, name: str | None = None) -> tf.Tensor:
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

    def num_accepted(self, name: str | None = None) -> tf.Tensor:
        """Counts how many times gradients were applied.

        Gradients that were accepted but whose application failed or was cancelled do not count. The
        rest is as for `num_dropped`.
        """
        return self._sum_over_gates(StalenessGate.num_accepted, name)

    @property
    def _wrapped(self) -> tf.compat.v1.train.Optimizer:
        return self._opt

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What a checkpoint holds, beside the slots."""
        children = super()._trackable_children(*args, **kwargs)
        counting = self._countings.get(outermost_graph())
        if counting is not None:
            children[COUNTER_NAME] = counting.stale_counter
        return children

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == COUNTER_NAME and outermost_graph() in self._countings:
            return self._countings[outermost_graph()].stale_counter
        return super()._lookup_dependency(name, *args, **kwargs)

    def _limit(self, step: tf.Variable) -> tf.Tensor:
        """The limit as int64 scalar."""
        dtype = step.dtype.base_dtype
        try:
            with on_host():
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
        return host_int64(limit)

    def _counting_with(self, step: tf.Variable) -> tuple[Counting, StalenessGate]:
        """What counts in this graph or eagerly, and the step's gate; both made if need be."""
        key = outermost_graph()
        with self._lock, tf.init_scope():
            if key not in self._countings:
                self._countings[key] = make_counting(step)
                self._handle_deferred_dependencies(COUNTER_NAME, self._countings[key].stale_counter)
            counting = self._countings[key]
            if id(step) not in counting.gates:
                gate = StalenessGate(step, counting.name, self.get_name())
                counting.gates[id(step)] = gate
                if not tf.executing_eagerly():
                    summarize(counting.stale_counter, step, gate)
        return counting, counting.gates[id(step)]

    def _sum_over_gates(
        self, count: Callable[[StalenessGate], tf.Tensor], name: str | None
    ) -> tf.Tensor:
        counting = self._countings.get(outermost_graph())
        if counting is None:
            raise ValueError(
                f"Optimizer '{self.get_name()}' has counted nothing yet: call apply_gradients() "
                "before, in the same graph."
            )
        with tf.name_scope(name or count.__name__):
            return tf.add_n([count(gate) for gate in counting.gates.values()], name="total")
