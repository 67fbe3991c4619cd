"""The conditional accumulator of dense gradients.

Mirrors ``tf.compat.v1.ConditionalAccumulator``.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase, TryTakeResult
from tf_condacc._accumulators.contributions import was_added
from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import not_converted
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """A conditional accumulator of dense gradients.

    A gradient is accumulated if its local step is not lower than the accumulator's own step;
    otherwise it is stale, and dropped without a check of its shape. A take waits until enough
    gradients are accumulated, returns their mean or sum, and increments the accumulator's step.

    A gradient may have a weight, a number that is finite and not negative. A mean is then
    ``sum(weight * grad) / sum(weight)``, and a sum is ``sum(weight * grad)``. A gradient without a
    weight has the weight 1. If all weights are 0, so is the mean. Each product is rounded to
    `dtype`, and can overflow in float16. Gradients of integers have no weights.

    A gradient may have a contributor, an integer that is not negative, such as the index of a
    worker: see `apply_contribution`.

    Mirrors ``tf.compat.v1.ConditionalAccumulator`` with these intended differences:

    - The data types are float16, bfloat16, float32, float64, complex64 and complex128, and with
      ``reduction_type="SUM"`` also int32 and int64. float16 and bfloat16 gradients are accumulated
      in float32 and rounded once, in the take.
    - In eager mode each object has its own state, unless a `shared_name` is given.
    - It is an error to use a `shared_name` again with another kind, dtype, shape or reduction.
    - `deterministic`, `try_apply_grad`, `apply_contribution`, `try_take_grad`, `reset`,
      `num_dropped` and `global_step` are new.

    Example:
        >>> accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[2])
        >>> accumulator.apply_grad([1.0, 0.0], local_step=0)
        >>> accumulator.apply_grad([3.0, 2.0], local_step=0)
        >>> print(accumulator.take_grad(num_required=2).numpy())
        [2. 1.]
        >>> print(accumulator.try_apply_grad([9.0, 9.0], local_step=0).numpy())
        False

    Args:
        dtype: Data type of the gradients.
        shape: Shape of the gradients, as ``tf.TensorShape`` takes it; None if unknown.
        shared_name: If given, the accumulator is shared under this name by all graphs and sessions
            that use the same resource manager, such as those of one ``tf.distribute.Server``.
        name: Name of the accumulator's operation.
        reduction_type: "MEAN" or "SUM".

    Raises:
        TypeError: `dtype` is not supported, or an argument has the wrong type.
        ValueError: `reduction_type` is neither "MEAN" nor "SUM", or it is "MEAN" and `dtype` is an
            integer type, or `shape` has a negative dimension.
    """

    _KIND = "dense"
    _NUM_TAKE_OUTPUTS = 1
    _REDUCTIONS = ("MEAN", "SUM")
    _DEFAULT_NAME = "ResourceConditionalAccumulator"
    _GRADIENT_PREFIX = "ResourceAccumulator"
    _STATE_PREFIX = "ResourceAccumulator"

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

    @classmethod
    def deterministic(
        cls,
        num_contributors: int,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> ConditionalAccumulator:
        """Makes an accumulator that adds gradients in the order of their contributors.

        The bits of a result then do not depend on the order in which the gradients arrive. Each
        gradient needs a contributor from 0 to `num_contributors` - 1: apply it with
        `apply_contribution`. A gradient that arrives before those of lower contributors is kept
        until they have come or until the take. If something else still uses its memory, it is
        copied for that. If the gradients of some contributors are missing when they are taken, the
        others are added in order. TensorFlow's own accumulator has no such method.

        Example:
            >>> accumulator = tf_condacc.ConditionalAccumulator.deterministic(
            ...     3, tf.float32, [], reduction_type="SUM"
            ... )
            >>> for contributor, gradient in ((1, 1e8), (2, -1e8), (0, 1.0)):
            ...     _ = accumulator.apply_contribution(gradient, contributor)
            >>> print(accumulator.take_grad(num_required=3).numpy())  # (1 + 1e8) - 1e8
            0.0

        Args:
            num_contributors: Number of contributors. A take must not require more gradients.
            dtype: This argument and those that follow are the constructor's.

        Raises:
            TypeError: `num_contributors` is not an integer.
            ValueError: `num_contributors` is lower than 1.
        """
        return cls._made_deterministic(
            num_contributors, dtype, shape, shared_name, name, reduction_type
        )

    @not_converted
    def apply_grad(
        self, grad: TensorLike, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Operation | None:
        """Applies a gradient: accumulates it, or drops it silently if it is stale.

        Args:
            grad: The gradient: `[d0, …] dtype`, or anything that converts to it.
                ``tf.IndexedSlices`` are converted to a dense tensor.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.

        Returns:
            The operation; None in eager mode.

        Raises:
            ValueError: The dtype of `grad` is not that of the accumulator.
        """
        outcome = self._outcome(grad, local_step, name)
        return None if tf.executing_eagerly() else outcome.op

    @not_converted
    def try_apply_grad(
        self,
        grad: TensorLike,
        local_step: TensorLike = 0,
        name: str | None = None,
        *,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies a gradient, and returns whether it was accumulated.

        Other arguments and errors are those of `apply_grad`. TensorFlow's own accumulator has no
        such method.

        Args:
            weight: Weight of the gradient: `[] real number`. None counts as 1.

        Returns:
            Whether the gradient was accumulated: `[] bool`. False if it was dropped as stale.

        Raises:
            TypeError: `weight` is not a real number, or is given for integers.
            tf.errors.InvalidArgumentError: `weight` is negative or not finite; or the accumulator
                is `deterministic`, whose gradients need a contributor.
            tf.errors.ResourceExhaustedError: Memory is refused. If it is the byte of the result,
                the gradient has been accumulated.
        """
        name = name or f"{self._GRADIENT_PREFIX}TryApplyGradient"
        return was_added(self._outcome(grad, local_step, f"{name}Outcome", weight), name)

    @not_converted
    def apply_contribution(
        self,
        grad: TensorLike,
        contributor: TensorLike,
        local_step: TensorLike = 0,
        name: str | None = None,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies a gradient of a contributor, and returns the outcome.

        Between two takes or resets, at most one gradient of each contributor is accumulated, namely
        the first one. Its local step must equal the accumulator's own step: unlike `apply_grad`,
        this method refuses gradients of later steps. The shape of a gradient that is not
        accumulated is not checked. After an error the contributor may apply another gradient.
        Gradients with a contributor and gradients without one are accumulated together.

        Other arguments and errors are those of `try_apply_grad`. TensorFlow's own accumulator has
        no such method.

        Args:
            contributor: Id of the contributor, cast to int64: `[] integer`.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.

        Raises:
            TypeError: `contributor` is not of an integer type.
            tf.errors.InvalidArgumentError: `contributor` is negative or, if the accumulator is
                `deterministic`, too high.
        """
        name = name or f"{self._GRADIENT_PREFIX}ApplyContribution"
        return self._outcome(grad, local_step, name, weight, [contributor])

    @not_converted
    def take_grad(self, num_required: TensorLike, name: str | None = None) -> tf.Tensor:
        """Waits until enough gradients are accumulated, and takes all of them.

        Takes are completed in the order in which they started, and each one increments the
        accumulator's step. In a graph, a pending take holds no thread of the session. In eager
        mode, it blocks the calling thread until other threads have applied the missing gradients;
        Ctrl-C ends the wait. In a ``tf.function``, the operations on one accumulator run in program
        order, so a take written before the applies that it needs never completes. Use
        `try_take_grad` there.

        A take that has waited for a long time logs a warning, and another one each time that the
        wait has lasted twice as long. The environment variable TF_CONDACC_STALL_WARNING_SECS sets
        this time: 60 seconds by default, 0 for no warning.

        Args:
            num_required: Number of gradients to wait for, at least 1: `[] int32`.
            name: Optional name of the operation.

        Returns:
            The mean, or the sum, of all accumulated gradients: `[d0, …] dtype`.

        Raises:
            tf.errors.InvalidArgumentError: `num_required` is lower than 1.
            tf.errors.CancelledError: The session was closed, or the run was cancelled.
            tf.errors.DeadlineExceededError: The run of the session has timed out.
            tf.errors.OutOfRangeError: The accumulator's step is 2**63 - 1, the highest int64.
        """
        return self._take(num_required, name, self._with_shape)

    @not_converted
    def try_take_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        Never waits for gradients. Other arguments and errors are those of `take_grad`. TensorFlow's
        own accumulator has no such method.

        Args:
            global_step: If given, the only step of the accumulator at which gradients are taken,
                cast to int64: `[] int64`.

        Returns:
            A named tuple ``(taken, value)``. ``taken: [] bool`` is True if gradients were taken.
            ``value: [d0, …] dtype`` is then the result of `take_grad`. Otherwise it is zeros of the
            constructor's shape, with 0 for each unknown dimension, or a scalar zero if the rank is
            unknown.
        """
        return self._try_take(num_required, name, global_step, self._with_shape)

    def _with_shape(self, outputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the only output of a take, with the static shape of the accumulator."""
        (gradient,) = outputs
        gradient.set_shape(self._shape)
        return gradient

    def _apply(
        self,
        step: tf.Tensor,
        gradient: tf.Tensor,
        contributors: list[tf.Tensor],
        weights: list[tf.Tensor],
        name: str,
    ) -> tf.Tensor:
        inputs = (self._accumulator_ref, step, gradient, contributors, weights)
        if not tf.executing_eagerly():
            gradient.shape.assert_is_compatible_with(self._shape)
            return ops.condacc_dense_apply(*inputs, name=name)
        # The operation checks the shape as well, and is faster.
        try:
            return ops.condacc_dense_apply(*inputs, name=name)
        except tf.errors.InvalidArgumentError:
            gradient.shape.assert_is_compatible_with(self._shape)
            raise
