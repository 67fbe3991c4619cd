"""The conditional accumulator of dense gradients.

Mirrors ``tf.compat.v1.ConditionalAccumulator``.
"""

from __future__ import annotations

import tensorflow as tf

from tf_condacc._host import host_int64
from tf_condacc._ops import ops
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike
from tf_condacc.accumulators.base import (
    AccumulatorOps,
    ConditionalAccumulatorBase,
    TryTakeResult,
)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """A conditional accumulator of dense gradients.

    Gradients are added if their local step is not lower than the accumulator's own step. A take
    waits until enough have been added, gives out their mean or sum, and moves the step on by one.

    Mirrors ``tf.compat.v1.ConditionalAccumulator``. Differences on purpose:

    - dtypes are float16, bfloat16, float32, float64, complex64, complex128, and with
      ``reduction_type="SUM"`` int32 and int64. float16 and bfloat16 are added in float32 and
      rounded once, when taken.
    - Eagerly each object has a state of its own, unless a `shared_name` is given.
    - Using a `shared_name` again with another kind, dtype, shape or reduction is an error.
    - `try_apply_grad`, `try_take_grad`, `num_dropped` and `global_step` are new.

    Args:
        dtype: Of the gradients.
        shape: Of the gradients: anything ``tf.TensorShape`` takes; None if unknown.
        shared_name: If given, the accumulator is shared under this name by all graphs and sessions
            that use the same resource manager: those of one ``tf.distribute.Server``, say.
        name: Of the accumulator's operation.
        reduction_type: "MEAN" or "SUM".

    Raises:
        TypeError: `dtype` is not supported, or an argument is of the wrong type.
        ValueError: `reduction_type` is neither "MEAN" nor "SUM", or is "MEAN" of integers; `shape`
            has a negative dimension.
    """

    _OPS = AccumulatorOps(
        make=ops.condacc_dense_accumulator,
        take=ops.condacc_dense_take,
        try_take=ops.condacc_dense_try_take,
        take_type="Condacc>DenseTake",
        num_take_outputs=1,
        default_name="ResourceConditionalAccumulator",
        gradient_prefix="ResourceAccumulator",
        state_prefix="ResourceAccumulator",
    )

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = self._make(dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_grad(
        self, grad: TensorLike, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Operation | None:
        """Adds a gradient, or drops it silently if it is stale.

        Stale is a gradient whose `local_step` is lower than the accumulator's step; whether it
        would fit is not looked at then.

        Args:
            grad: A tensor of the accumulator's dtype and shape, or what converts to one.
                ``tf.IndexedSlices`` are made dense.
            local_step: A scalar, cast to int64: the step at which the gradient was computed.
            name: Optional name of the operation.

        Returns:
            The operation; None eagerly.

        Raises:
            ValueError: `grad` is known not to fit, or `local_step` not to be a scalar.
            tf.errors.InvalidArgumentError: So it turns out when run.
            tf.errors.ResourceExhaustedError: Memory is short. Nothing has changed then.
        """
        accepted = self._apply(
            grad, local_step, name or f"{self._OPS.gradient_prefix}ApplyGradient"
        )
        return None if tf.executing_eagerly() else accepted.op

    def try_apply_grad(
        self, grad: TensorLike, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Tensor:
        """Adds a gradient unless it is stale, and tells which. Not in the original.

        Args and errors are those of `apply_grad`.

        Returns:
            A bool scalar tensor: True if the gradient was added, False if it was dropped.
        """
        return self._apply(grad, local_step, name or f"{self._OPS.gradient_prefix}TryApplyGradient")

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> tf.Tensor:
        """Waits until enough gradients are accumulated, and takes them all.

        Takes are served in the order in which they came, and the accumulator's step moves on by
        one with each. Waiting holds no thread of a session. Eagerly it blocks the calling thread
        until another one applies what is missing; Ctrl-C ends it. In one ``tf.function`` the ops
        on one accumulator run in the order in which they are written: a take before the applies it
        needs would wait for ever (`try_take_grad` does not).

        A take that waits longer than the environment variable TF_CONDACC_STALL_WARNING_SECS says
        (60 by default, 0 for never) logs one warning.

        Args:
            num_required: An int32 scalar, at least 1: how many gradients are enough.
            name: Optional name of the operation.

        Returns:
            A tensor of the gradients' dtype and shape: the mean (or sum) of all accumulated.

        Raises:
            ValueError: `num_required` is known not to be a scalar.
            tf.errors.InvalidArgumentError: It is not a scalar, or lower than 1.
            tf.errors.CancelledError: The session was closed or the step cancelled.
            tf.errors.DeadlineExceededError: The step ran out of time.
            tf.errors.OutOfRangeError: The step is 2**63 - 1.
        """
        (average,) = self._take(num_required, name)
        average.set_shape(self._shape)
        return average

    def try_take_grad(self, num_required: TensorLike, name: str | None = None) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough and no other take waits.

        Never waits for gradients. Not in the original. Args and errors are those of `take_grad`.

        Returns:
            A pair ``(taken, value)``: a bool scalar tensor, and what `take_grad` would return if it
            is True. If it is False, zeros of the constructor's shape, with 0 in place of unknown
            dimensions (rank 0 if the rank is unknown).
        """
        taken, average = self._try_take(num_required, name)
        average.set_shape(self._shape)
        return TryTakeResult(taken, average)

    def _apply(self, grad: TensorLike, local_step: TensorLike, name: str) -> tf.Tensor:
        grad = tf.convert_to_tensor(grad, dtype=self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        local_step = host_int64(local_step)
        return ops.condacc_dense_apply(self._accumulator_ref, local_step, grad, name=name)
