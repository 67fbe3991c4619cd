"""The parts of a sparse gradient."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_condacc._ops.host import on_host


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


def as_slices(gradient: SparseGradient) -> tf.IndexedSlices:
    """Returns the same gradient as ``tf.IndexedSlices``."""
    return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=gradient.shape)


def no_shape() -> tf.Tensor:
    """Returns the shape that stands for an unknown one in operations: `[0] int64`, on the host."""
    with on_host():
        return tf.constant([], tf.int64)
