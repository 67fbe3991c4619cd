"""The methods of sparse accumulators that apply gradients."""

from __future__ import annotations

import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase
from tf_condacc._accumulators.contributions import contributor_id, was_added
from tf_condacc._ops.host import host_int64, int64_input, on_host
from tf_condacc._ops.library import ops
from tf_condacc._typing import TensorLike


class SparseApplies(ConditionalAccumulatorBase):
    """The part of `SparseConditionalAccumulator` that applies gradients."""

    _no_shape: tf.Tensor | None = None  # Kept in eager mode: making it takes as long as an apply.

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

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike = None,
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
        contributor: TensorLike | None = None,
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
            contributor: Id of the gradient's contributor: `[] integer`, not negative. If given, the
                gradient is applied as by `apply_contribution`.

        Returns:
            Whether the gradient was accumulated: `[] bool`. False if it was dropped as stale or,
            with a contributor, was a duplicate or ahead of the accumulator's step.
        """
        name = name or f"{self._OPS.gradient_prefix}TryApplyGradient"
        if contributor is None:
            inputs = self._inputs_of_apply(grad_indices, grad_values, grad_shape, local_step)
            return ops.condacc_sparse_apply(*inputs, name=name)
        outcome = self.apply_contribution(
            grad_indices, grad_values, contributor, grad_shape, local_step, f"{name}Outcome"
        )
        return was_added(outcome, name)

    def try_apply_indexed_slices_grad(
        self,
        grad: tf.IndexedSlices,
        local_step: TensorLike = 0,
        name: str | None = None,
        contributor: TensorLike | None = None,
    ) -> tf.Tensor:
        """Applies ``tf.IndexedSlices``, and returns whether they were accumulated.

        TensorFlow's own accumulator has no such method. The errors are those of `try_apply_grad`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.
            contributor: Id of the gradient's contributor, as in `try_apply_grad`: `[] integer`.

        Returns:
            Whether the gradient was accumulated, as in `try_apply_grad`: `[] bool`.
        """
        return self.try_apply_grad(
            grad.indices, grad.values, grad.dense_shape, local_step, name, contributor
        )

    def apply_contribution(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        contributor: TensorLike,
        grad_shape: TensorLike = None,
        local_step: TensorLike = 0,
        name: str | None = None,
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

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.

        Raises:
            TypeError: `contributor` is not of an integer type.
            ValueError: The static shape of `contributor` is not that of a scalar.
            tf.errors.InvalidArgumentError: `contributor` is not a scalar or is negative.
        """
        name = name or f"{self._OPS.gradient_prefix}ApplyContribution"
        inputs = self._inputs_of_apply(grad_indices, grad_values, grad_shape, local_step)
        contributor = contributor_id(contributor, self._name)
        return ops.condacc_sparse_apply_contribution(*inputs, contributor, name=name)

    def apply_indexed_slices_contribution(
        self,
        grad: tf.IndexedSlices,
        contributor: TensorLike,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> tf.Tensor:
        """Applies ``tf.IndexedSlices`` of a contributor, and returns the outcome.

        TensorFlow's own accumulator has no such method. The errors are those of
        `apply_contribution`.

        Args:
            grad: The gradient. `apply_grad` describes its parts.
            contributor: Id of the contributor, as in `apply_contribution`: `[] integer`.
            local_step: The step at which the gradient was computed, cast to int64: `[] int64`.
            name: Optional name of the operation.

        Returns:
            The outcome, one of the values of `tf_condacc.ApplyOutcome`: `[] int32`.
        """
        return self.apply_contribution(
            grad.indices, grad.values, contributor, grad.dense_shape, local_step, name
        )

    def _inputs_of_apply(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike,
        local_step: TensorLike,
    ) -> list[TensorLike]:
        """Converts the handle and the parts of a gradient to the inputs of an operation."""
        local_step = int64_input(local_step)
        indices = grad_indices
        if not isinstance(indices, tf.Tensor):
            indices = tf.convert_to_tensor(indices)
        if indices.dtype not in (tf.int64, tf.int32):
            indices = tf.cast(indices, tf.int64)
        values = self._converted(grad_values)
        return [self._accumulator_ref, local_step, indices, values, self._dense_shape(grad_shape)]

    def _dense_shape(self, shape: TensorLike) -> tf.Tensor:
        """Converts the shape of a gradient, or None, to an input of an operation."""
        if shape is not None:
            return host_int64(shape)
        if not tf.executing_eagerly():
            return _no_shape()
        if self._no_shape is None:
            self._no_shape = _no_shape()
        return self._no_shape


def _no_shape() -> tf.Tensor:
    with on_host():
        return tf.constant([], tf.int64)
