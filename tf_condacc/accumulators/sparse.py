"""The conditional accumulator of sparse gradients.

Mirrors ``tf.compat.v1.SparseConditionalAccumulator``, also known as
``tf.compat.v1.sparse.SparseConditionalAccumulator``.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_condacc._host import host_int64, on_host
from tf_condacc._ops import ops
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike
from tf_condacc.accumulators.base import (
    AccumulatorOps,
    ConditionalAccumulatorBase,
    TryTakeResult,
)


class SparseGradient(NamedTuple):
    """What `SparseConditionalAccumulator.take_grad` returns."""

    indices: tf.Tensor
    values: tf.Tensor
    shape: tf.Tensor


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """A conditional accumulator of sparse gradients: some rows of a tensor, by their numbers.

    Gradients are added if their local step is not lower than the accumulator's own step. A take
    waits until enough have been added, gives out the rows that were in any of them, and moves the
    step on by one.

    Mirrors ``tf.compat.v1.SparseConditionalAccumulator``. Differences on purpose:

    - Rows may come in any order and repeat within a gradient. Repeats are summed and count as one.
      Rows go out ascending and unique.
    - Values are converted to `dtype`, as those of dense gradients are.
    - Row numbers are never negative, and lie below the first dimension of the constructor's shape,
      or of `grad_shape` if that does not tell it.
    - It works eagerly, in ``tf.function`` and in control flow of either version.
    - ``reduction_type="GLOBAL_MEAN"`` is new, as are `try_apply_grad`,
      `try_apply_indexed_slices_grad`, `try_take_grad`, `try_take_indexed_slices_grad`,
      `num_dropped` and `global_step`.
    - dtypes, shared names and lifetime are as of `ConditionalAccumulator`.

    Which mean? With "MEAN" the sum of a row is divided by the number of gradients that the row was
    in, with "GLOBAL_MEAN" by the number of all. Of two replicas' gradients of an embedding, say,
    {3: 4.0} and {3: 8.0, 5: 2.0}, "MEAN" makes {3: 6.0, 5: 2.0}: each row learns at its full rate
    however rare it is. "GLOBAL_MEAN" makes {3: 6.0, 5: 1.0}, the gradient of the mean of the
    replicas' losses: what one replica would have computed on the whole batch, and what
    `ConditionalAccumulator` makes of the same gradients in dense form.

    Args:
        dtype: Of the gradients' values.
        shape: The first dimensions of the tensors whose rows they hold: anything
            ``tf.TensorShape`` takes; None, or a scalar's shape, if unknown. Gradients may have more
            dimensions; those of one round must agree.
        shared_name: If given, the accumulator is shared under this name by all graphs and sessions
            that use the same resource manager: those of one ``tf.distribute.Server``, say.
        name: Of the accumulator's operation.
        reduction_type: "MEAN", "SUM" or "GLOBAL_MEAN".

    Raises:
        TypeError: `dtype` is not supported, or an argument is of the wrong type.
        ValueError: `reduction_type` is none of these, or is a mean of integers; `shape` has a
            negative dimension.
    """

    _OPS = AccumulatorOps(
        make=ops.condacc_sparse_accumulator,
        take=ops.condacc_sparse_take,
        try_take=ops.condacc_sparse_try_take,
        take_type="Condacc>SparseTake",
        num_take_outputs=3,
        default_name="SparseConditionalAccumulator",
        gradient_prefix="SparseAccumulator",
        state_prefix="Accumulator",
    )

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = self._make(dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(
        self, grad: tf.IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Operation | None:
        """Adds a gradient, or drops it silently if it is stale.

        Args:
            grad: ``tf.IndexedSlices``; see `apply_grad` for its parts.
            local_step: A scalar, cast to int64: the step at which the gradient was computed.
            name: Optional name of the operation.

        Returns:
            The operation; None eagerly.

        Raises:
            As `apply_grad`.
        """
        return self.apply_grad(
            grad_indices=grad.indices,
            grad_values=grad.values,
            grad_shape=grad.dense_shape,
            local_step=local_step,
            name=name,
        )

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> tf.Operation | None:
        """Adds a gradient, or drops it silently if it is stale.

        Stale is a gradient whose `local_step` is lower than the accumulator's step; whether it
        would fit is not looked at then. A gradient without rows counts like any other.

        Args:
            grad_indices: Vector of row numbers, int32 or int64 or cast to int64, in any order.
            grad_values: Their rows, of shape ``[number of rows, ...]`` and the accumulator's dtype,
                or what converts to it.
            grad_shape: The shape of the tensor whose rows they are, cast to int64; None or empty if
                unknown. It must agree with the constructor's shape, and bounds the row numbers if
                that does not; a negative number of rows is unknown. It is not compared with the
                values, and what is taken does not depend on it.
            local_step: A scalar, cast to int64: the step at which the gradient was computed.
            name: Optional name of the operation.

        Returns:
            The operation; None eagerly.

        Raises:
            ValueError: `grad_values` is of another dtype, or `local_step` known not to be a scalar.
            tf.errors.InvalidArgumentError: The parts do not fit each other, the accumulator's shape
                or what is accumulated; a row number is negative or beyond the shape.
            tf.errors.ResourceExhaustedError: Memory is short. Nothing has changed then.
        """
        name = name or f"{self._OPS.gradient_prefix}ApplyGradient"
        accepted = self.try_apply_grad(grad_indices, grad_values, grad_shape, local_step, name)
        return None if tf.executing_eagerly() else accepted.op

    def try_apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> tf.Tensor:
        """Adds a gradient unless it is stale, and tells which. Not in the original.

        Args and errors are those of `apply_grad`.

        Returns:
            A bool scalar tensor: True if the gradient was added, False if it was dropped.
        """
        local_step = host_int64(local_step)
        indices = tf.convert_to_tensor(grad_indices)
        if indices.dtype != tf.int32:
            indices = tf.cast(indices, tf.int64)
        values = tf.convert_to_tensor(grad_values, dtype=self._dtype)
        if grad_shape is None:
            with on_host():
                shape = tf.constant([], tf.int64)
        else:
            shape = host_int64(grad_shape)
        name = name or f"{self._OPS.gradient_prefix}TryApplyGradient"
        return ops.condacc_sparse_apply(
            self._accumulator_ref, local_step, indices, values, shape, name=name
        )

    def try_apply_indexed_slices_grad(
        self, grad: tf.IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Tensor:
        """Adds ``tf.IndexedSlices`` unless they are stale, and tells which. Not in the original.

        Args and errors are those of `apply_indexed_slices_grad`.

        Returns:
            A bool scalar tensor: True if the gradient was added, False if it was dropped.
        """
        return self.try_apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> SparseGradient:
        """Waits until enough gradients are accumulated, and takes them all.

        Waits as `ConditionalAccumulator.take_grad` does.

        Args:
            num_required: An int32 scalar, at least 1: how many gradients are enough.
            name: Optional name of the operation.

        Returns:
            A named tuple ``(indices, values, shape)``: an int64 vector of the rows that were in any
            of the gradients, ascending; their means (or sums), of shape ``[number of rows, ...]``;
            and as an int64 vector the shape of the tensor whose rows they are, with -1 for their
            number if the constructor's shape does not tell it. In a graph the rank of the values
            is not known, as with the original: gradients may have more dimensions than the
            constructor's shape. Call ``set_shape`` where the variable tells it.

        Raises:
            As `ConditionalAccumulator.take_grad`, and tf.errors.ResourceExhaustedError: memory is
            short. Nothing is taken then.
        """
        return SparseGradient(*self._take(num_required, name))

    def take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> tf.IndexedSlices:
        """Waits until enough gradients are accumulated, and takes them all.

        Args and errors are those of `take_grad`.

        Returns:
            ``tf.IndexedSlices`` of the parts that `take_grad` returns.
        """
        return _as_slices(self.take_grad(num_required, name))

    def try_take_grad(self, num_required: TensorLike, name: str | None = None) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough and no other take waits.

        Never waits for gradients. Not in the original. Args and errors are those of `take_grad`.

        Returns:
            A pair ``(taken, value)``: a bool scalar tensor, and what `take_grad` would return if it
            is True. If it is False there are no rows.
        """
        taken, *parts = self._try_take(num_required, name)
        return TryTakeResult(taken, SparseGradient(*parts))

    def try_take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> TryTakeResult:
        """Like `try_take_grad`, with ``tf.IndexedSlices`` as the value. Not in the original."""
        taken, value = self.try_take_grad(num_required, name)
        return TryTakeResult(taken, _as_slices(value))


def _as_slices(gradient: SparseGradient) -> tf.IndexedSlices:
    return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=gradient.shape)
