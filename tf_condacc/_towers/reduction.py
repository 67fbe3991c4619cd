"""The sum of the gradients that all towers compute for a variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import is_determinism_enabled
from tf_condacc._typing import Gradient

# A single operation adds up to _MAX_AT_ONCE gradients of up to _MAX_BYTES_AT_ONCE bytes each, once
# all of them are computed. For such small gradients, one operation for each costs more time than
# adding early saves, and the memory that they hold is within the limit of a sum.
_MAX_AT_ONCE = 8
_MAX_BYTES_AT_ONCE = 256 << 10


def sum_gradients(
    gradients: Sequence[Gradient], variable: tf.Variable, deterministic: bool | None = None
) -> Gradient:
    """Adds gradients on the variable's device, each as soon as it is computed.

    Each run of the graph has its own sum, which is freed when the run ends. The sum takes over the
    memory of a gradient if nothing else uses it. A few small gradients are added when all are
    computed, in the order of the towers. Other gradients are added in the order in which they
    arrive, so that floating-point sums of three or more towers may differ in their last bits
    between runs, unless `deterministic`.

    Args:
        gradients: The gradients of the towers, at least one: dense ones `[d0, …] dtype`, or
            ``tf.IndexedSlices`` of such tensors.
        variable: The variable.
        deterministic: Whether all gradients are added in the order of the towers; None for what
            ``tf.config.experimental.enable_op_determinism`` has set.

    Returns:
        A dense tensor `[d0, …] dtype`; or ``tf.IndexedSlices`` with unique rows in ascending order,
        if all gradients are ``tf.IndexedSlices``. A single gradient is returned unchanged.
        float16 and bfloat16 gradients are added in float32.
    """
    in_order = is_determinism_enabled() if deterministic is None else deterministic
    with v1.device(variable.device):
        if len(gradients) == 1:
            return tf.identity(gradients[0])
        if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
            return _sum_sparse(gradients, variable, in_order)
        dense = [_dense(gradient, variable) for gradient in gradients]
        return _sum_dense(dense, variable, in_order)


def _sum_dense(gradients: Sequence[tf.Tensor], variable: tf.Variable, in_order: bool) -> tf.Tensor:
    dtype = gradients[0].dtype.base_dtype
    if len(gradients) <= _MAX_AT_ONCE and _is_small(variable.shape, dtype):
        return ops.condacc_tower_dense_sum_at_once(gradients, shape=variable.shape, name="sum")
    handle = ops.condacc_tower_dense_sum(dtype=dtype, shape=variable.shape, name="sum")
    adds = _added(lambda g: ops.condacc_tower_dense_add(handle, g, name="add"), gradients, in_order)
    with tf.control_dependencies(adds):
        return ops.condacc_tower_dense_take(handle, len(adds), dtype=dtype, name="take")


def _is_small(shape: tf.TensorShape, dtype: tf.DType) -> bool:
    size = shape.num_elements()
    return size is not None and size * dtype.size <= _MAX_BYTES_AT_ONCE


def _sum_sparse(
    gradients: Sequence[tf.IndexedSlices], variable: tf.Variable, in_order: bool
) -> tf.IndexedSlices:
    dtype = gradients[0].dtype.base_dtype
    handle = ops.condacc_tower_sparse_sum(dtype=dtype, shape=variable.shape, name="sum")
    adds = _added(
        lambda g: ops.condacc_tower_sparse_add(
            handle, g.indices, g.values, _dense_shape(g), name="add"
        ),
        gradients,
        in_order,
    )
    with tf.control_dependencies(adds):
        rows = ops.condacc_tower_sparse_take(handle, len(adds), dtype=dtype, name="take")
    # The operation has no static shape, because it accepts gradients of any rank.
    rows.values.set_shape(tf.TensorShape([None]).concatenate(variable.shape[1:]))
    rows.shape.set_shape([variable.shape.rank])
    dense_shape = gradients[0].dense_shape
    return tf.IndexedSlices(
        rows.values, rows.indices, rows.shape if dense_shape is None else dense_shape
    )


def _added(
    add: Callable[[Gradient], tf.Operation], gradients: Sequence[Gradient], in_order: bool
) -> list[tf.Operation]:
    """Builds an operation for each gradient, after the previous one if `in_order`."""
    made: list[tf.Operation] = []
    for gradient in gradients:
        with tf.control_dependencies(made[-1:] if in_order else []):
            made.append(add(gradient))
    return made


def _dense_shape(gradient: tf.IndexedSlices) -> tf.Tensor:
    if gradient.dense_shape is None:
        return tf.constant([], tf.int64)
    return tf.cast(gradient.dense_shape, tf.int64)


def _dense(gradient: Gradient, variable: tf.Variable) -> tf.Tensor:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    shape = gradient.dense_shape
    num_rows = tf.shape(variable)[0] if shape is None else shape[0]
    # The rows are summed first, because TensorFlow's segment sum ignores negative row numbers and
    # adds float16 values in float16.
    once = _sum_sparse([gradient], variable, in_order=False)
    return tf.math.unsorted_segment_sum(once.values, once.indices, num_rows)
