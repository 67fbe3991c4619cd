"""The sum of a variable's gradients from all towers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_condacc._ops import ops

Gradient = tf.Tensor | tf.IndexedSlices

# Up to so many gradients of up to so many bytes are added by a single op, when all are there: for
# each of them, an op of its own costs more than holding it. That is no more than a sum may hold.
_MAX_AT_ONCE = 8
_MAX_BYTES_AT_ONCE = 256 << 10


def sum_gradients(gradients: Sequence[Gradient], variable: Any) -> Gradient:
    """Adds the gradients as they arrive, on the variable's device.

    The sum belongs to one execution: it is made by it, and is gone when it ends. It takes each
    gradient's memory over where nobody else uses it. A few small gradients are added when all are
    there, in the order of the towers. With
    ``tf.config.experimental.enable_op_determinism`` the towers' gradients are added in the order of
    the towers; else in order of arrival, so that float sums of three and more towers may differ in
    their last bits from run to run.

    Args:
      gradients: of the towers, dense or sparse; at least one.
      variable: whose gradients they are.

    Returns:
      An ``IndexedSlices`` of ascending unique rows if all gradients are such (or the gradient as it
      is, if there is only one), else a dense tensor. float16 and bfloat16 are added in float32.
    """
    with tf.compat.v1.device(variable.device):
        if len(gradients) == 1:
            return tf.identity(gradients[0])
        if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
            return _sum_sparse(gradients, variable)
        return _sum_dense([_dense(gradient, variable) for gradient in gradients], variable)


def _sum_dense(gradients: Sequence[tf.Tensor], variable: Any) -> tf.Tensor:
    dtype = gradients[0].dtype.base_dtype
    if len(gradients) <= _MAX_AT_ONCE and _is_small(variable.shape, dtype):
        return ops.condacc_tower_dense_sum_at_once(gradients, shape=variable.shape, name="sum")
    handle = ops.condacc_tower_dense_sum(dtype=dtype, shape=variable.shape, name="sum")
    adds = _in_order(
        [lambda g=g: ops.condacc_tower_dense_add(handle, g, name="add") for g in gradients]
    )
    with tf.control_dependencies(adds):
        return ops.condacc_tower_dense_take(handle, len(adds), dtype=dtype, name="take")


def _is_small(shape: tf.TensorShape, dtype: tf.DType) -> bool:
    size = shape.num_elements()
    return size is not None and size * dtype.size <= _MAX_BYTES_AT_ONCE


def _sum_sparse(gradients: Sequence[tf.IndexedSlices], variable: Any) -> tf.IndexedSlices:
    dtype = gradients[0].dtype.base_dtype
    handle = ops.condacc_tower_sparse_sum(dtype=dtype, shape=variable.shape, name="sum")
    adds = _in_order(
        [
            lambda g=g: ops.condacc_tower_sparse_add(
                handle, g.indices, g.values, _dense_shape(g), name="add"
            )
            for g in gradients
        ]
    )
    with tf.control_dependencies(adds):
        rows = ops.condacc_tower_sparse_take(handle, len(adds), dtype=dtype, name="take")
    # The op itself does not know that gradients have just the variable's dimensions.
    rows.values.set_shape(tf.TensorShape([None]).concatenate(variable.shape[1:]))
    rows.shape.set_shape([variable.shape.rank])
    dense_shape = gradients[0].dense_shape
    return tf.IndexedSlices(
        rows.values, rows.indices, rows.shape if dense_shape is None else dense_shape
    )


def _in_order(adds: Sequence[Callable[[], tf.Operation]]) -> list[tf.Operation]:
    """Makes the operations; one waits for the one before if their order must be kept."""
    made: list[tf.Operation] = []
    for add in adds:
        with tf.control_dependencies(made[-1:] if is_op_determinism_enabled() else []):
            made.append(add())
    return made


def _dense_shape(gradient: tf.IndexedSlices) -> tf.Tensor:
    if gradient.dense_shape is None:
        return tf.constant([], tf.int64)
    return tf.cast(gradient.dense_shape, tf.int64)


def _dense(gradient: Gradient, variable: Any) -> tf.Tensor:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    shape = gradient.dense_shape
    num_rows = tf.shape(variable)[0] if shape is None else shape[0]
    # TensorFlow's own sum leaves out rows below zero and adds float16 in float16.
    once = _sum_sparse([gradient], variable)
    return tf.math.unsorted_segment_sum(once.values, once.indices, num_rows)
