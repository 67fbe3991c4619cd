"""The conditional accumulator of sparse gradients.

Mirrors ``tf.compat.v1.SparseConditionalAccumulator``, also known as
``tf.compat.v1.sparse.SparseConditionalAccumulator``.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase, TryTakeResult
from tf_condacc._accumulators.contributions import contributor_id, was_added
from tf_condacc._accumulators.sparse_gradient import SparseGradient, as_slices, no_shape
from tf_condacc._ops.host import host_int64
from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import not_converted
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
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
    - ``reduction_type="GLOBAL_MEAN"``, `deterministic`, `try_apply_grad`,
      `try_apply_indexed_slices_grad`, `apply_contribution`, `apply_indexed_slices_contribution`,
      `try_take_grad`, `try_take_indexed_slices_grad`, `reset`, `num_dropped` and `global_step` are
      new.
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

        The bits of a result then do not depend on the order in which the gradients arrive. The
        rules are those of `ConditionalAccumulator.deterministic`. Within a gradient, repeated rows
        are added in the order in which they come.

        TensorFlow's own accumulator has no such method.

        Example:
            >>> accumulator = tf_condacc.SparseConditionalAccumulator.deterministic(
            ...     3, tf.float32, [4, 1], reduction_type="SUM"
            ... )
            >>> for contributor, gradient in ((1, 1e8), (2, -1e8), (0, 1.0)):
            ...     _ = accumulator.apply_contribution([3], [[gradient]], contributor)
            >>> print(accumulator.take_grad(num_required=3).values.numpy())  # (1 + 1e8) - 1e8
            [[0.]]

        Args:
            num_contributors: Number of contributors. A take must not require more gradients.
            dtype: As in the constructor, like the arguments that follow.
            shape: Shape of the gradients.
            shared_name: Name under which the accumulator is shared.
            name: Name of the accumulator's operation.
            reduction_type: How gradients are reduced.

        Raises:
            TypeError: `num_contributors` is not an integer.
            ValueError: `num_contributors` is lower than 1.
        """
        return cls._made_deterministic(
            num_contributors, dtype, shape, shared_name, name, reduction_type
        )

    @not_converted
    def apply_indexed_slices_grad(
        self, grad: tf.IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> tf.Operation | None:
        """Applies ``tf.IndexedSlices``: accumulates them, or drops them silently if they are stale.

        The errors are those of `apply_grad`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.

        Returns:
            The operation; None in eager mode.
        """
        return self.apply_grad(
            grad_indices=grad.indices,
            grad_values=grad.values,
            grad_shape=grad.dense_shape,
            local_step=local_step,
            name=name,
        )

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

        A gradient is stale if its `local_step` is lower than the accumulator's step. The parts of a
        stale gradient are not checked. A gradient without rows counts like any other.

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
            ValueError: `grad_values` has another dtype, or the static shape of `local_step` is not
                that of a scalar.
            tf.errors.InvalidArgumentError: The shapes of the parts do not match each other, the
                accumulator's shape or the gradients accumulated so far, or a row number is negative
                or too high.
            tf.errors.ResourceExhaustedError: There is not enough memory. The accumulator has not
                changed.
        """
        outcome = self._outcome(grad_indices, grad_values, grad_shape, local_step, name)
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

        TensorFlow's own accumulator has no such method. Other arguments and errors are those of
        `apply_grad`.

        Args:
            grad_indices: Row numbers in any order: `[nnz] int32 or int64`.
            grad_values: The rows: `[nnz, d1, …] dtype`.
            grad_shape: Shape of the tensor that the rows belong to: `[rank] int64`.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.
            weight: Weight of the gradient, finite and not negative: `[] real number`. A row of the
                mean is the weighted sum of its values, divided by the sum of the weights of the
                gradients that contain the row ("MEAN") or of all gradients ("GLOBAL_MEAN"). A sum
                is not divided. A gradient without a weight has the weight 1. If all weights are 0,
                so is the mean. Each product is rounded to `dtype`, and can overflow in float16.

        Returns:
            Whether the gradient was accumulated: `[] bool`. False if it was dropped as stale.

        Raises:
            TypeError: `weight` is not a real number, or is given for integers.
            ValueError: The static shape of `weight` is not that of a scalar.
            tf.errors.InvalidArgumentError: `weight` is not a scalar, is negative or is not finite,
                or the accumulator is on a GPU and its reduction is "MEAN"; or the accumulator is
                `deterministic`, whose gradients need a contributor.
            tf.errors.ResourceExhaustedError: Memory is refused. If it is the byte of the result,
                the gradient has been accumulated.
        """
        name = name or f"{self._GRADIENT_PREFIX}TryApplyGradient"
        outcome = self._outcome(
            grad_indices, grad_values, grad_shape, local_step, f"{name}Outcome", weight
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
        """Applies ``tf.IndexedSlices``, and returns whether they were accumulated.

        TensorFlow's own accumulator has no such method. The errors are those of `try_apply_grad`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.
            weight: Weight of the gradient, as in `try_apply_grad`: `[] real number`.

        Returns:
            True if the gradient was accumulated, as in `try_apply_grad`: `[] bool`.
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

        The rules are those of `ConditionalAccumulator.apply_contribution`. The parts of a gradient
        that is not accumulated are not checked. The errors are those of `apply_grad` and those
        listed below. TensorFlow's own accumulator has no such method.

        Args:
            grad_indices: Row numbers, as `apply_grad` takes them: `[nnz] int32 or int64`.
            grad_values: The rows: `[nnz, d1, …] dtype`.
            contributor: Id of the contributor, cast to int64: `[] integer`, not negative.
            grad_shape: Shape of the tensor that the rows belong to: `[rank] int64`.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.
            weight: Weight of the gradient, as in `try_apply_grad`: `[] real number`.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.

        Raises:
            TypeError: `contributor` is not of an integer type, or `weight` is not a real number or
                is given for integers.
            ValueError: The static shape of `contributor` or `weight` is not that of a scalar.
            tf.errors.InvalidArgumentError: `contributor` is not a scalar, is negative or, if the
                accumulator is `deterministic`, too high; or `weight` is as `try_apply_grad` does
                not accept it.
        """
        name = name or f"{self._GRADIENT_PREFIX}ApplyContribution"
        contributors = [contributor_id(contributor, self._name)]
        return self._outcome(
            grad_indices, grad_values, grad_shape, local_step, name, weight, contributors
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
        """Applies ``tf.IndexedSlices`` of a contributor, and returns the outcome.

        TensorFlow's own accumulator has no such method. The errors are those of
        `apply_contribution`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.
            contributor: Id of the contributor, as in `apply_contribution`: `[] integer`.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.
            weight: Weight of the gradient, as in `try_apply_grad`: `[] real number`.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.
        """
        return self.apply_contribution(
            grad.indices, grad.values, contributor, grad.dense_shape, local_step, name, weight
        )

    @not_converted
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
        return self._take(num_required, name, SparseGradient._make)

    @not_converted
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
        return self._take(num_required, name, _slices)

    @not_converted
    def try_take_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        It never waits for gradients. TensorFlow's own accumulator has no such method. The errors
        are those of `take_grad`.

        Args:
            num_required: Number of gradients that are enough, at least 1: `[] int32`.
            name: Optional name of the operation.
            global_step: If given, the only step of the accumulator at which gradients are taken,
                cast to int64: `[] int64`.

        Returns:
            A named tuple ``(taken, value)``. If ``taken: [] bool`` is True, ``value`` is the result
            of `take_grad`. Otherwise it is a `SparseGradient` without rows.
        """
        return self._try_take(num_required, name, global_step, SparseGradient._make)

    @not_converted
    def try_take_indexed_slices_grad(
        self,
        num_required: TensorLike,
        name: str | None = None,
        global_step: TensorLike | None = None,
    ) -> TryTakeResult:
        """Takes the accumulated gradients if there are enough of them and no other take is pending.

        TensorFlow's own accumulator has no such method. The errors are those of `try_take_grad`.

        Args:
            num_required: Number of gradients that are enough, at least 1: `[] int32`.
            name: Optional name of the operation.
            global_step: If given, the only step of the accumulator at which gradients are taken,
                cast to int64: `[] int64`.

        Returns:
            The result of `try_take_grad`, with ``tf.IndexedSlices`` as its value.
        """
        return self._try_take(num_required, name, global_step, _slices)

    def _outcome(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike | None,
        local_step: TensorLike,
        name: str | None = None,
        weight: TensorLike | None = None,
        contributors: Sequence[tf.Tensor] = (),
    ) -> tf.Tensor:
        """Applies a gradient, and returns the outcome, as `apply_contribution` does: `[] int32`.

        Args:
            grad_indices: Row numbers: `[nnz] int32 or int64`.
            grad_values: The rows: `[nnz, d1, …] dtype`.
            grad_shape: Shape of the tensor that the rows belong to: `[rank] int64`; None if it is
                unknown.
            local_step: The step at which the gradient was computed: `[] int64`.
            name: Name of the operation; None for that of `apply_grad`.
            weight: Weight of the gradient: `[] real number`; None if it has none.
            contributors: The contributor: `[] int64`; empty if there is none.
        """
        name = name or f"{self._GRADIENT_PREFIX}ApplyGradient"
        values, weights = self._weighted(grad_values, weight)
        step = self._step(local_step, "local_step")
        indices = grad_indices
        if not isinstance(indices, tf.Tensor):
            indices = tf.convert_to_tensor(indices)
        if indices.dtype not in (tf.int64, tf.int32):
            indices = tf.cast(indices, tf.int64)
        shape = self._dense_shape(grad_shape)
        return ops.condacc_sparse_apply(
            self._accumulator_ref,
            step,
            indices,
            values,
            shape,
            list(contributors),
            weights,
            name=name,
        )

    def _dense_shape(self, shape: TensorLike | None) -> tf.Tensor:
        """Converts the shape of a gradient, or None, to an input of an operation."""
        if shape is not None:
            return host_int64(shape)
        if not tf.executing_eagerly():
            return no_shape()
        if self._no_shape is None:
            self._no_shape = no_shape()
        return self._no_shape


def _slices(outputs: Sequence[tf.Tensor]) -> tf.IndexedSlices:
    return as_slices(SparseGradient._make(outputs))
