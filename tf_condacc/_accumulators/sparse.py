"""The conditional accumulator of sparse gradients.

Mirrors ``tf.compat.v1.SparseConditionalAccumulator``, also known as
``tf.compat.v1.sparse.SparseConditionalAccumulator``.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_condacc._accumulators.base import TryTakeResult
from tf_condacc._accumulators.construction import AccumulatorOps
from tf_condacc._accumulators.sparse_applies import SparseApplies
from tf_condacc._ops.library import ops
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike


class SparseGradient(NamedTuple):
    """A sparse gradient: some rows of a tensor.

    Attributes:
        indices: Row numbers: `[nnz] int64`.
        values: The rows: `[nnz, d1, …] dtype`.
        shape: Shape of the tensor that the rows belong to: `[rank] int64`.
    """

    indices: tf.Tensor
    values: tf.Tensor
    shape: tf.Tensor


class SparseConditionalAccumulator(SparseApplies):
    """A conditional accumulator of sparse gradients, which hold some rows of a tensor.

    A gradient is accumulated if its local step is not lower than the accumulator's own step. A take
    waits until enough gradients are accumulated, returns the union of their rows, and increments
    the accumulator's step.

    Mirrors ``tf.compat.v1.SparseConditionalAccumulator`` with these intended differences:

    - The rows of a gradient may come in any order and may repeat. Repeated rows are summed and
      count as one row. A take returns unique rows in ascending order.
    - Values are converted to `dtype`, as those of dense gradients are.
    - Row numbers must not be negative. They must be lower than the first dimension of the
      constructor's shape or, if that is unknown, of `grad_shape`.
    - It works in eager mode, in ``tf.function`` and in control flow of either version.
    - ``reduction_type="GLOBAL_MEAN"``, `try_apply_grad`, `try_apply_indexed_slices_grad`,
      `apply_contribution`, `apply_indexed_slices_contribution`, `try_take_grad`,
      `try_take_indexed_slices_grad`, `reset`, `num_dropped` and `global_step` are new.
    - Data types, shared names and lifetime are those of `ConditionalAccumulator`.

    With "MEAN", the sum of a row is divided by the number of gradients that contain the row; with
    "GLOBAL_MEAN", by the number of all gradients. Suppose that two replicas compute the gradients
    {3: 4.0} and {3: 8.0, 5: 2.0} of an embedding. "MEAN" gives {3: 6.0, 5: 2.0}: a rare row gets
    updates of the same size as a frequent row. "GLOBAL_MEAN" gives {3: 6.0, 5: 1.0}: the gradient
    of the mean of the replicas' losses. It equals the gradient that one replica would compute on
    the whole batch, and the result of `ConditionalAccumulator` for the same gradients in dense
    form.

    Example:
        >>> accumulator = tf_condacc.SparseConditionalAccumulator(tf.float32, shape=[10, 1])
        >>> accumulator.apply_grad(grad_indices=[7, 3, 7], grad_values=[[1.0], [4.0], [1.0]])
        >>> accumulator.apply_grad(grad_indices=[3], grad_values=[[2.0]])
        >>> mean = accumulator.take_indexed_slices_grad(num_required=2)
        >>> print(mean.indices.numpy(), mean.values.numpy().tolist())
        [3 7] [[3.0], [2.0]]

    Args:
        dtype: Data type of the gradients' values.
        shape: Leading dimensions of the tensor that the gradients belong to, as ``tf.TensorShape``
            takes them. None, or the shape of a scalar, if unknown. Gradients may have more
            dimensions; those that are accumulated together must have the same shape.
        shared_name: If given, the accumulator is shared under this name by all graphs and sessions
            that use the same resource manager, such as those of one ``tf.distribute.Server``.
        name: Name of the accumulator's operation.
        reduction_type: "MEAN", "SUM" or "GLOBAL_MEAN".

    Raises:
        TypeError: `dtype` is not supported, or an argument has the wrong type.
        ValueError: `reduction_type` is none of the three, or it is a mean and `dtype` is an integer
            type, or `shape` has a negative dimension.
    """

    _OPS = AccumulatorOps(
        make=lambda **arguments: ops.condacc_sparse_accumulator(**arguments),
        take=lambda *inputs, **attrs: ops.condacc_sparse_take(*inputs, **attrs),
        try_take=lambda *inputs, **attrs: ops.condacc_sparse_try_take(*inputs, **attrs),
        take_round=lambda *inputs, **attrs: ops.condacc_sparse_take_round(*inputs, **attrs),
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

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> SparseGradient:
        """Waits until enough gradients are accumulated, and takes all of them.

        Waits as `ConditionalAccumulator.take_grad` does, and raises the errors of that method as
        well.

        Args:
            num_required: Number of gradients to wait for, at least 1: `[] int32`.
            name: Optional name of the operation.

        Returns:
            A named tuple ``(indices, values, shape)``. ``indices: [nnz] int64`` are the rows that
            any of the gradients contains, ascending. ``values: [nnz, d1, …] dtype`` are the means,
            or sums, of these rows. ``shape: [rank] int64`` is the shape of the tensor that the rows
            belong to; its first element is -1 if the constructor's shape does not give it. In a
            graph the static rank of the values is unknown, as it is with TensorFlow's own
            accumulator, because gradients may have more dimensions than the constructor's shape.
            Call ``set_shape`` with the shape of the variable if it is needed.

        Raises:
            tf.errors.ResourceExhaustedError: There is not enough memory. Nothing was taken.
        """
        return SparseGradient(*self._take(num_required, name))

    def take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> tf.IndexedSlices:
        """Waits until enough gradients are accumulated, and takes all of them.

        The errors are those of `take_grad`.

        Args:
            num_required: Number of gradients to wait for, at least 1: `[] int32`.
            name: Optional name of the operation.

        Returns:
            The parts that `take_grad` returns, as ``tf.IndexedSlices``.
        """
        # Not `self.take_grad`: as in the original, a subclass may override each method on its own.
        return _as_slices(SparseGradient(*self._take(num_required, name)))

    def try_take_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        Takes as `ConditionalAccumulator.try_take_grad` does, and never waits. The errors are those
        of `take_grad`.

        Args:
            num_required: Number of gradients that are enough, at least 1: `[] int32`.
            name: Optional name of the operation.
            global_step: If given, the only step at which gradients are taken: `[] int64`.

        Returns:
            A named tuple ``(taken, value)``. If ``taken: [] bool`` is True, ``value`` is the result
            of `take_grad`. Otherwise it is a `SparseGradient` without rows.
        """
        taken, *parts = self._try_take(num_required, name, global_step)
        return TryTakeResult(taken, SparseGradient(*parts))

    def try_take_indexed_slices_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        The errors are those of `try_take_grad`.

        Args:
            num_required: Number of gradients that are enough, as in `try_take_grad`: `[] int32`.
            name: Optional name of the operation.
            global_step: The only step at which gradients are taken, if given: `[] int64`.

        Returns:
            The result of `try_take_grad`, with ``tf.IndexedSlices`` as its value.
        """
        taken, value = self.try_take_grad(num_required, name, global_step)
        return TryTakeResult(taken, _as_slices(value))


def _as_slices(gradient: SparseGradient) -> tf.IndexedSlices:
    return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=gradient.shape)
