"""The optimizer that drops stale gradients.

Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.host import check_control_flow, host_int64, on_host
from tf_condacc._optimizers.drop_stale.counting import Counters
from tf_condacc._optimizers.drop_stale.gate import StalenessGate
from tf_condacc._optimizers.drop_stale.gated_update import update_unless_late
from tf_condacc._optimizers.drop_stale.local_step import GLOBAL_STEP_ADVICE, LocalSteps
from tf_condacc._optimizers.drop_stale.ordering import settled_gradients
from tf_condacc._optimizers.wrapper import OptimizerWrapper
from tf_condacc._typing import GradientAndVariable, Loss, TensorLike


class DropStaleGradientOptimizer(OptimizerWrapper):
    """Wraps an optimizer, and drops gradients that are stale when they are ready.

    Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``. The global step is read when a worker
    begins to compute gradients; this value is the local step. The global step is read again when
    the gradients are ready. If it has increased by more than `staleness`, the gradients are stale:
    nothing is applied, the global step does not change, and the variable ``stale_counter`` is
    incremented. Otherwise the wrapped optimizer applies the gradients and increments the global
    step.

    It differs from the original in these ways:

    - The local step is read before the loss reads any variable.
    - The decision and the resulting increment of the step are atomic among all optimizers, sessions
      and workers that share the step variable.
    - A graph may contain any number of instances, and each may apply gradients several times.
    - It works in eager mode and in ``tf.function``, with a callable loss and a step that is passed
      to `minimize`.
    - `num_dropped`, `num_accepted` and a histogram summary of the staleness are new.

    With a `staleness` of 0, all other updates are dropped while an accepted update is applied. The
    wrapped optimizer must therefore not wait for other workers, for example in a queue or a take.
    If an update takes a long time, one warning is logged in the process that holds the step. The
    environment variable TF_CONDACC_STALL_WARNING_SECS sets this time: 60 seconds by default, 0 for
    no warning.

    Example:
        >>> step = tf.Variable(0, dtype=tf.int64)
        >>> weight = tf.Variable(1.0)
        >>> adam = tf.compat.v1.train.AdamOptimizer(0.5)
        >>> optimizer = tf_condacc.DropStaleGradientOptimizer(adam, staleness=3)
        >>> for _ in range(5):
        ...     _ = optimizer.minimize(lambda: weight * weight, global_step=step)
        >>> int(step), int(optimizer.num_accepted()), int(optimizer.num_dropped())
        (5, 5, 0)

    Args:
        opt: The optimizer to wrap, a ``tf.compat.v1.train.Optimizer``.
        staleness: The highest number of steps by which gradients may be behind: `[] int32 or
            int64`. An integer, or a tensor or variable of the global step's dtype. If it is
            negative, all gradients are dropped.
        use_locking: Passed to the base class, as in the original. It has no effect.
        name: Name of this optimizer.
    """

    def __init__(
        self,
        opt: v1.train.Optimizer,
        staleness: TensorLike,
        use_locking: bool = False,
        name: str = "DropStaleGradient",
    ) -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._staleness = staleness
        self._begin()

    def _begin(self) -> None:
        """Makes what copies do not share."""
        self._counters = Counters(self.get_name(), self._restore_own)
        self._local_steps = LocalSteps(self.get_name())
        # Held while the wrapped optimizer applies gradients, because it is not thread-safe: it
        # stores the state of a call in its attributes, and creates slots on demand.
        self._wrapped_in_use = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Returns what copies and pickles contain: neither the counters nor the local steps."""
        own = ("_counters", "_local_steps", "_wrapped_in_use")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores what `__getstate__` returns."""
        self.__dict__.update(state)
        self._begin()

    def minimize(
        self,
        loss: Loss,
        global_step: tf.Variable | None = None,
        var_list: Iterable[tf.Variable] | Callable[[], Iterable[tf.Variable]] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes gradients, and applies them if they are not stale.

        The errors are those of `compute_gradients` and `apply_gradients`. In eager mode and in a
        ``tf.function``, the local step is the value of `global_step` before the loss is computed.

        Args:
            loss: The loss, `[] float`, or a function that returns it. In eager mode it must be a
                function.
            global_step: The step variable: `[] int32 or int64`. Required, although it has a default
                as in the original.
            var_list: The variables to update, or a function that returns them. By default the
                graph's trainable variables or, in eager mode, those that the loss reads.
            gate_gradients: Passed to the wrapped optimizer's `compute_gradients`.
            aggregation_method: Passed to the wrapped optimizer's `compute_gradients`.
            colocate_gradients_with_ops: Passed to the wrapped optimizer's `compute_gradients`.
            name: Name of the wrapped optimizer's operation.
            grad_loss: Passed to the wrapped optimizer's `compute_gradients`.

        Returns:
            The value of ``stale_counter``, as `apply_gradients` returns it: `[] float32`.
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

        In a graph, the local step is the value of that graph's global step, whatever step is passed
        to `apply_gradients`. The global step is the variable in the collection GLOBAL_STEP or, if
        there is none, a variable called ``global_step``. In a graph with neither, `apply_gradients`
        reads the step that is passed to it. In all cases the step is read before any variable that
        `loss` depends on, even under control dependencies such as UPDATE_OPS.

        Args:
            loss: The loss, `[] float`, or a function that returns it. In eager mode it must be a
                function.
            *args: Passed to the wrapped optimizer's `compute_gradients`.
            **kwargs: Passed to the wrapped optimizer's `compute_gradients`, except `global_step`.
                `global_step` is the step variable to read in eager mode and in a ``tf.function``,
                where there may be no graph with a global step.

        Returns:
            The wrapped optimizer's list of (gradient, variable) pairs.

        Raises:
            ValueError: There is no global step, in eager mode or in a ``tf.function``.
            TypeError: The variable called ``global_step`` is not a scalar of an integer type, or
                reference variables are used with control flow of version 2.
            RuntimeError: Replicas of a ``tf.distribute.Strategy`` make updates together.
        """
        self._check_strategy()
        loss = self._local_steps.read_before(loss, kwargs.pop("global_step", None))
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradientAndVariable],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Tensor:
        """Applies gradients if they are not stale, and drops them otherwise.

        Args:
            grads_and_vars: Iterable of (gradient, variable) pairs, as `compute_gradients` returns
                them. Gradients may be tensors, ``tf.IndexedSlices`` or None.
            global_step: The step variable: `[] int32 or int64`. It is read when all gradients are
                ready, and incremented if they are applied.
            name: Name of the wrapped optimizer's operation.

        Returns:
            The value of ``stale_counter``, which is how many times gradients have been dropped so
            far: `[] float32`. Its operation is the training operation. The value is exact up to
            2**24; `num_dropped` has no such limit.

        Raises:
            ValueError: `global_step` is None, not a variable, not a scalar, or has another dtype
                than the local step; or `compute_gradients` was not called before; or there are no
                gradients.
            TypeError: The `staleness` given to the constructor is not an integer of the step's
                dtype, or reference variables are used with control flow of version 2.
            RuntimeError: Replicas of a ``tf.distribute.Strategy`` make updates together.
        """
        self._check_strategy()
        grads_and_vars = tuple(grads_and_vars)
        _check_gradients(grads_and_vars)
        _check_step(global_step)
        check_control_flow([global_step, *[variable for _, variable in grads_and_vars]])
        local_step = self._local_steps.compared_with(global_step)
        limit = self._checked_limit(global_step)
        stale_counter, gate = self._counters.of_step(global_step)

        def update() -> Any:
            with self._wrapped_in_use:
                return self._opt.apply_gradients(grads_and_vars, global_step, name=name)

        after = settled_gradients(grads_and_vars)
        num_dropped = update_unless_late(gate, local_step, limit, update, after)
        count = v1.assign_add(stale_counter, num_dropped, use_locking=True, name="AssignAdd")
        return count if isinstance(count, tf.Tensor) else count.read_value()

    def variables(self) -> list[tf.Variable]:
        """Returns the variables of the wrapped optimizer and ``stale_counter``.

        The original returns an empty list.
        """
        counter = self._counters.stale_counter()
        return [*self._opt.variables(), *([] if counter is None else [counter])]

    def num_dropped(self, name: str | None = None) -> tf.Tensor:
        """Returns how many times gradients were dropped: `[] int64`.

        The count covers all sessions and workers, and begins with the process that holds the step.
        It is not in checkpoints. The original has no such method.

        Args:
            name: Optional name of the operation.

        Raises:
            ValueError: `apply_gradients` was not called before, in this graph or in eager mode.
        """
        return self._counters.total(StalenessGate.num_dropped, name)

    def num_accepted(self, name: str | None = None) -> tf.Tensor:
        """Returns how many times gradients were applied: `[] int64`.

        Gradients that were accepted do not count if applying them failed or was cancelled.
        Otherwise this method is like `num_dropped`.

        Args:
            name: Optional name of the operation.

        Raises:
            ValueError: `apply_gradients` was not called before, in this graph or in eager mode.
        """
        return self._counters.total(StalenessGate.num_accepted, name)

    def _check_strategy(self) -> None:
        """Checks that the replicas of a ``tf.distribute.Strategy`` do not make updates together.

        Raises:
            RuntimeError: The current strategy has several replicas, or is a mirrored one in a
                function.
        """
        strategy = tf.distribute.get_strategy()
        mirrored = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy
        in_function = isinstance(strategy, mirrored) and not tf.executing_eagerly()
        if strategy.num_replicas_in_sync > 1 or in_function:
            raise RuntimeError(
                f"DropStaleGradientOptimizer '{self.get_name()}' does not work under "
                f"{type(strategy).__name__}. Its replicas make each update together, so their "
                "gradients are never stale: use the wrapped optimizer."
            )

    def _checked_limit(self, step: tf.Variable) -> tf.Tensor:
        """Returns the highest accepted staleness as a tensor of the step's graph: `[] int64`.

        Raises:
            TypeError: The staleness is not an integer of the step's data type.
            ValueError: The staleness is not a scalar.
        """
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

    @property
    def _wrapped(self) -> v1.train.Optimizer:
        return self._opt

    def _own_children(self) -> dict[str, Any]:
        return self._counters.children()


def _check_gradients(grads_and_vars: Sequence[GradientAndVariable]) -> None:
    """Checks that there is a gradient. The messages are those of TensorFlow's optimizers.

    Raises:
        ValueError: There are no pairs, or every gradient is None.
    """
    if not grads_and_vars:
        raise ValueError("No variables provided.")
    if all(gradient is None for gradient, _ in grads_and_vars):
        names = [str(variable) for _, variable in grads_and_vars]
        raise ValueError(f"No gradients provided for any variable: {names}.")


def _check_step(step: Any) -> None:
    """Checks that the step can be incremented.

    Raises:
        ValueError: `step` is not a variable, or not a scalar of dtype int64 or int32.
    """
    if step is None:
        raise ValueError(
            "Gradients are dropped by the global step, but global_step is None: "
            f"{GLOBAL_STEP_ADVICE}."
        )
    if not isinstance(step, tf.Variable):
        raise ValueError(
            f"Expected global_step to be a variable, got {step!r}: {GLOBAL_STEP_ADVICE}."
        )
    if step.dtype.base_dtype not in (tf.int64, tf.int32) or not step.shape.is_compatible_with(()):
        raise ValueError(
            "Expected global_step to be a scalar of dtype int64 or int32, got "
            f"'{step.name}' of dtype {step.dtype.base_dtype.name} and shape {step.shape}: "
            f"{GLOBAL_STEP_ADVICE}."
        )
