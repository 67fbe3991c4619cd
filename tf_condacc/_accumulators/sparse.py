"""The conditional accumulator of sparse gradients.

Mirrors ``tf.compat.v1.SparseConditionalAccumulator``, also known as
``tf.compat.v1.sparse.SparseConditionalAccumulator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase, TryTakeResult
from tf_condacc._accumulators.contributions import was_added
from tf_condacc._ops.host import host_int64, on_host
from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import not_converted
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike


class SparseGradient(NamedTuple):
    """A sparse gradient: some rows of a tensor.

    Example:
        >>> accumulator = tf_condacc.SparseConditionalAccumulator(tf.float32, shape=[10, 1])
        >>> accumulator.apply_grad(grad_indices=[3], grad_values=[[4.0]])
        >>> indices, values, shape = accumulator.take_grad(num_required=1)
        >>> print(indices.numpy(), values.numpy(), shape.numpy())
        [3] [[4.]] [10  1]

    Attributes:
        indices: Row numbers: `[nnz] int64`.
        values: The rows: `[nnz, d1, …] dtype`.
        shape: Shape of the tensor that the rows belong to: `[rank] int64`.
    """

    indices: tf.Tensor
    values: tf.Tensor
    shape: tf.Tensor


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """A conditional accumulator of sparse gradients, which hold some rows of a tensor.

    A gradient is accumulated or dropped as by a `ConditionalAccumulator`. A take returns the union
    of the gradients' rows. A gradient without rows counts like any other.

    With "MEAN", the sum of a row is divided by the number of gradients that contain the row; with
    "GLOBAL_MEAN", by the number of all gradients. Suppose that two replicas compute the gradients
    {3: 4.0} and {3: 8.0, 5: 2.0} of an embedding. "MEAN" gives {3: 6.0, 5: 2.0}: a rare row gets
    updates of the same size as a frequent row. "GLOBAL_MEAN" gives {3: 6.0, 5: 1.0}: the gradient
    of the mean of the replicas' losses. It equals the gradient that one replica would compute on
    the whole batch, and the result of `ConditionalAccumulator` for the same gradients in dense
    form.

    Weights and contributors are those of `ConditionalAccumulator`. If gradients have weights, the
    weighted sum of a row is divided by the sum of the weights of the same gradients.

    Mirrors ``tf.compat.v1.SparseConditionalAccumulator`` with these intended differences:

    - The rows of a gradient may come in any order and may repeat. Repeated rows are summed and
      count as one row. A take returns unique rows in ascending order.
    - Values are converted to `dtype`, as those of dense gradients are.
    - Row numbers must not be negative. They must be lower than the first dimension of the
      constructor's shape or, if that is unknown, of `grad_shape`.
    - It works in eager mode, in ``tf.function`` and in control flow of either version.
    - ``reduction_type="GLOBAL_MEAN"``, `deterministic`, `try_apply_grad`,
      `try_apply_indexed_slices_grad`, `apply_contribution`, `apply_indexed_slices_contribution`,
      `try_take_grad`, `try_take_indexed_slices_grad`, `reset`, `num_dropped` and `global_step` are
      new.
    - Data types, shared names and lifetime are those of `ConditionalAccumulator`.

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
        shared_name: Name under which the accumulator is shared, as in `ConditionalAccumulator`.
        name: Name of the accumulator's operation.
        reduction_type: "MEAN", "SUM" or "GLOBAL_MEAN".

    Raises:
        TypeError: `dtype` is not supported, or an argument has the wrong type.
        ValueError: `reduction_type` is none of the three, or it is a mean and `dtype` is an integer
            type, or `shape` has a negative dimension.
    """

    _KIND = "sparse"
    _NUM_TAKE_OUTPUTS = 3
    _REDUCTIONS = ("MEAN", "SUM", "GLOBAL_MEAN")
    _DEFAULT_NAME = "SparseConditionalAccumulator"
    _GRADIENT_PREFIX = "SparseAccumulator"
    _STATE_PREFIX = "Accumulator"

    _no_shape: tf.Tensor | None = None  # Kept in eager mode: making it takes as long as an apply.

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

    @classmethod
    def deterministic(
        cls,
        num_contributors: int,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> SparseConditionalAccumulator:
        """Makes an accumulator that adds gradients in the order of their contributors.

        Rules, arguments and errors are those of `ConditionalAccumulator.deterministic`. Within a
        gradient, repeated rows are added in the order in which they come.

        Example:
            >>> accumulator = tf_condacc.SparseConditionalAccumulator.deterministic(
            ...     3, tf.float32, [4, 1], reduction_type="SUM"
            ... )
            >>> for contributor, gradient in ((1, 1e8), (2, -1e8), (0, 1.0)):
            ...     _ = accumulator.apply_contribution([3], [[gradient]], contributor)
            >>> print(accumulator.take_grad(num_required=3).values.numpy())  # (1 + 1e8) - 1e8
            [[0.]]
        """
        return cls._made_deterministic(
            num_contributors, dtype, shape, shared_name, name, reduction_type
        )

    @not_converted
    def apply_indexed_slices_grad(
        self, grad: tf.IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Operation | None:
        """Applies ``tf.IndexedSlices``. Other arguments and errors are those of `apply_grad`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.

        Returns:
            The operation; None in eager mode.
        """
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    @not_converted
    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> tf.Operation | None:
        """Applies a gradient: accumulates it, or drops it silently if it is stale.

        Args:
            grad_indices: Row numbers in any order: `[nnz] int32 or int64`. Other types are cast to
                int64.
            grad_values: The rows: `[nnz, d1, …] dtype`, or anything that converts to it.
            grad_shape: Shape of the tensor that the rows belong to, cast to int64: `[rank] int64`.
                None or empty if unknown; a negative first dimension means that the number of rows
                is unknown. It must be compatible with the constructor's shape. Row numbers must be
                lower than its first dimension if the constructor's shape does not give one. It is
                not compared with the values, and takes do not depend on it.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.

        Returns:
            The operation; None in eager mode.

        Raises:
            ValueError: `grad_values` has another dtype.
            tf.errors.InvalidArgumentError: The shapes of the parts do not match each other, the
                accumulator's shape or the gradients accumulated so far, or a row number is negative
                or too high.
        """
        outcome = self._outcome(
            grad_values, local_step, name, indices=grad_indices, shape=grad_shape
        )
        return None if tf.executing_eagerly() else outcome.op

    @not_converted
    def try_apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
        *,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies a gradient, and returns whether it was accumulated.

        Other arguments are those of `apply_grad`. Errors are those of `apply_grad` and of
        `ConditionalAccumulator.try_apply_grad`. TensorFlow's own accumulator has no such method.

        Args:
            weight: Weight of the gradient: `[] real number`. None counts as 1.

        Returns:
            Whether the gradient was accumulated: `[] bool`. False if it was dropped as stale.

        Raises:
            tf.errors.InvalidArgumentError: A weight is given, the accumulator is on a GPU, and its
                reduction is "MEAN".
        """
        name = name or f"{self._GRADIENT_PREFIX}TryApplyGradient"
        outcome = self._outcome(
            grad_values,
            local_step,
            f"{name}Outcome",
            weight,
            indices=grad_indices,
            shape=grad_shape,
        )
        return was_added(outcome, name)

    @not_converted
    def try_apply_indexed_slices_grad(
        self,
        grad: tf.IndexedSlices,
        local_step: TensorLike = 0,
        name: str | None = None,
        *,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies ``tf.IndexedSlices``. Other arguments and errors are those of `try_apply_grad`.

        Returns:
            Whether the gradient was accumulated: `[] bool`.
        """
        return self.try_apply_grad(
            grad.indices, grad.values, grad.dense_shape, local_step, name, weight=weight
        )

    @not_converted
    def apply_contribution(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        contributor: TensorLike,
        grad_shape: TensorLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies a gradient of a contributor, and returns the outcome.

        Rules and errors are those of `ConditionalAccumulator.apply_contribution`. Other arguments
        and further errors are those of `try_apply_grad`. TensorFlow's own accumulator has no such
        method.

        Args:
            contributor: Id of the contributor, cast to int64: `[] integer`.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.
        """
        name = name or f"{self._GRADIENT_PREFIX}ApplyContribution"
        return self._outcome(
            grad_values,
            local_step,
            name,
            weight,
            [contributor],
            indices=grad_indices,
            shape=grad_shape,
        )

    @not_converted
    def apply_indexed_slices_contribution(
        self,
        grad: tf.IndexedSlices,
        contributor: TensorLike,
        local_step: TensorLike = 0,
        name: str | None = None,
        weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies ``tf.IndexedSlices``. Arguments and errors are those of `apply_contribution`.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.
        """
        return self.apply_contribution(
            grad.indices, grad.values, contributor, grad.dense_shape, local_step, name, weight
        )

    @not_converted
    def take_grad(self, num_required: TensorLike, name: str | None = None) -> SparseGradient:
        """Waits until enough gradients are accumulated, and takes all of them.

        Waits, and raises errors, as `ConditionalAccumulator.take_grad` does.

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
        """
        return self._take(num_required, name, SparseGradient._make)

    @not_converted
    def take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> tf.IndexedSlices:
        """Takes gradients. Arguments and errors are those of `take_grad`.

        Returns:
            The parts that `take_grad` returns, as ``tf.IndexedSlices``.
        """
        # Not `self.take_grad`: as in the original, a subclass may override each method on its own.
        return self._take(num_required, name, _slices)

    @not_converted
    def try_take_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        Arguments and errors are those of `ConditionalAccumulator.try_take_grad`. TensorFlow's own
        accumulator has no such method.

        Returns:
            A named tuple ``(taken, value)``. If ``taken: [] bool`` is True, ``value`` is the result
            of `take_grad`. Otherwise it is a `SparseGradient` without rows. In a graph the values
            have the static shape ``[None, d1, …]`` of the constructor, if it is known.

        Raises:
            tf.errors.InvalidArgumentError: In a graph, the gradients have more dimensions than the
                constructor's shape. They have been taken, and are lost.
        """
        return self._try_take(num_required, name, global_step, self._with_static_shape)

    @not_converted
    def try_take_indexed_slices_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes gradients without waiting. Arguments and errors are those of `try_take_grad`.

        Returns:
            The result of `try_take_grad`, with ``tf.IndexedSlices`` as its value.
        """
        return self._try_take(
            num_required,
            name,
            global_step,
            lambda outputs: _slices(self._with_static_shape(outputs)),
        )

    def _with_static_shape(self, outputs: Sequence[tf.Tensor]) -> SparseGradient:
        """Returns what was taken, whose values have the shape that optimizers of Keras 3 need."""
        taken = SparseGradient._make(outputs)
        if tf.executing_eagerly() or self._shape.rank is None:
            return taken
        return taken._replace(values=tf.ensure_shape(taken.values, [None, *self._shape[1:]]))

    def _apply(
        self,
        step: tf.Tensor,
        values: tf.Tensor,
        contributors: list[tf.Tensor],
        weights: list[tf.Tensor],
        name: str,
        indices: TensorLike,
        shape: TensorLike | None,
    ) -> tf.Tensor:
        rows = indices if isinstance(indices, tf.Tensor) else tf.convert_to_tensor(indices)
        if rows.dtype not in (tf.int64, tf.int32):
            rows = tf.cast(rows, tf.int64)
        dense_shape = self._dense_shape(shape)
        inputs = (self._accumulator_ref, step, rows, values, dense_shape, contributors, weights)
        return ops.condacc_sparse_apply(*inputs, name=name)

    def _dense_shape(self, shape: TensorLike | None) -> tf.Tensor:
        """Converts the shape of a gradient, or None, to an input of an operation."""
        if shape is not None:
            return host_int64(shape)
        if self._no_shape is not None and tf.executing_eagerly():
            return self._no_shape
        with on_host():
            no_shape = tf.constant([], tf.int64)  # It stands for an unknown shape.
        if tf.executing_eagerly():
            self._no_shape = no_shape
        return no_shape


def _slices(outputs: Sequence[tf.Tensor]) -> tf.IndexedSlices:
    indices, values, shape = outputs
    return tf.IndexedSlices(values, indices, dense_shape=shape)
