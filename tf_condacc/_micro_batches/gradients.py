"""Arithmetic of gradients: weights, clipping, and sums over replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._accumulators.weights import multiplied
from tf_condacc._micro_batches.checks import CLIPPINGS, Clipping, is_loss_scaling, parts_of
from tf_condacc._ops.native import ops
from tf_condacc._typing import Gradient

_HAS_NON_FINITE = 2  # The mode whose second output is 1 if an element is not finite, otherwise 0.
_MAX_SMALL = 4096  # Elements of a gradient that a graph multiplies together with others.
_MAX_TOGETHER = 25  # Gradients of one such operation, so that several threads multiply and apply.


def values_of(gradient: Gradient) -> tf.Tensor:
    """Returns the elements of a gradient: a dense one, or the values of a sparse one."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def with_values(gradient: Gradient, values: tf.Tensor) -> Gradient:
    """Returns a gradient of the same kind and rows with other elements."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def is_any_not_finite(
    gradients: Sequence[Gradient | None], weight: tf.Tensor | None = None
) -> tf.Tensor | bool:
    """Returns whether any gradient of any replica has a NaN or an infinity: `[] bool`.

    The gradients of a replica whose weight is 0 do not matter: they add zeros.

    The operation of TensorFlow's debugger reads each element once and writes nothing, unlike
    ``tf.reduce_all(tf.math.is_finite(...))``. Several gradients are checked in parallel.

    Args:
        gradients: The gradients of this replica. A gradient of None is finite.
        weight: Their weight: `[] float64`; None for 1.
    """
    values = [values_of(one) for one in gradients if one is not None]
    parts = [
        part
        for one in values
        for part in ([tf.math.real(one), tf.math.imag(one)] if one.dtype.is_complex else [one])
    ]
    outputs = [
        tf.raw_ops.DebugNumericSummaryV2(input=part, tensor_debug_mode=_HAS_NON_FINITE)
        for part in parts
    ]
    if tf.executing_eagerly():  # Eager operations on scalars would take most of the time.
        num_bad: Any = sum(float(output.numpy()[1]) for output in outputs)
    else:
        num_bad = tf.add_n(outputs)[1]
    if weight is not None:
        num_bad = tf.where(weight > 0, num_bad, 0.0)
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        context = tf.distribute.get_replica_context()
        num_bad = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.convert_to_tensor(num_bad))
    return num_bad > 0


def multiplied_all(gradients: Sequence[Gradient], factor: tf.Tensor) -> list[Gradient]:
    """Multiplies gradients by a factor, `[] float64`.

    One operation multiplies many gradients, because to start one takes longer than to multiply
    a thousand numbers. In a graph it would wait for all of them, and keep them in memory. So a
    graph multiplies large gradients one by one, as soon as they are computed.
    """
    products = [values_of(one) for one in gradients]
    together: dict[tf.DType, list[int]] = {}
    has_gpu = bool(tf.config.list_logical_devices("GPU"))  # The operation has no kernel for it.
    is_eager = tf.executing_eagerly()
    if is_eager and not has_gpu and len({values.dtype for values in products}) == 1:
        # This takes less time than the general case.
        made = ops.condacc_multiply(products, factor)
        return [with_values(one, product) for one, product in zip(gradients, made, strict=True)]
    for position, values in enumerate(products):
        if not has_gpu and (is_eager or _is_small(values)):
            together.setdefault(values.dtype, []).append(position)
        else:
            products[position] = multiplied(values, factor)
    for positions in together.values():
        size = len(positions) if is_eager else _MAX_TOGETHER
        for begin in range(0, len(positions), size):
            some = positions[begin : begin + size]
            made = ops.condacc_multiply([products[position] for position in some], factor)
            for position, product in zip(some, made, strict=True):
                products[position] = product
    return [with_values(one, product) for one, product in zip(gradients, products, strict=True)]


def _is_small(values: tf.Tensor) -> bool:
    number = values.shape.num_elements()
    return number is not None and number <= _MAX_SMALL


def gradients_for(
    optimizer: Any, gradients: Sequence[Gradient], clipping: Clipping | None
) -> list[Gradient]:
    """Returns gradients that an optimizer may add up over the replicas.

    If the gradients are clipped, or one is sparse, the first replica gets the sum of all replicas,
    and the others get zeros: to clip parts is not to clip their sum. Rows of ``tf.IndexedSlices``
    are made unique in this sum. TensorFlow concatenates those of replicas when it adds them up, and
    optimizers such as Adam of Keras give wrong results for rows that several replicas have.

    Args:
        optimizer: The optimizer.
        gradients: The gradients of this replica.
        clipping: How to clip the sum; None if not at all.
    """
    context, is_first = tf.distribute.get_replica_context(), True
    gradients = list(gradients)
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        is_first = tf.get_static_value(context.replica_id_in_sync_group) == 0
        needs_sums = clipping is not None or _clips_itself(optimizer)
        gradients = [
            _sum_on_first_replica(one) if needs_sums or isinstance(one, tf.IndexedSlices) else one
            for one in gradients
        ]
    if clipping is None or not is_first:
        return gradients
    return _clipped(gradients, clipping, optimizer)


def _sum_on_first_replica(gradient: Gradient) -> Gradient:
    """Returns the sum of all replicas on the first one, and zeros or no rows on the others.

    Args:
        gradient: The gradient of this replica. The sum of ``tf.IndexedSlices`` has unique rows.
    """
    context = tf.distribute.get_replica_context()
    is_first = tf.get_static_value(context.replica_id_in_sync_group) == 0
    if not isinstance(gradient, tf.IndexedSlices):
        together = context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        return together if is_first else tf.zeros_like(together)
    together = context.all_reduce(tf.distribute.ReduceOp.SUM, _with_a_row(gradient))
    # The zeros of a replica without rows are added to another row, or to the first one.
    anywhere = tf.maximum(tf.reduce_max(together.indices), 0)
    rows, positions = tf.unique(tf.where(together.indices < 0, anywhere, together.indices))
    if not is_first:
        return tf.IndexedSlices(together.values[:0], rows[:0], gradient.dense_shape)
    values = tf.math.unsorted_segment_sum(together.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _with_a_row(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Returns a gradient that has a row of zeros with the index -1 if it had no row.

    TensorFlow crashes if it adds up gradients of which none has a row.
    """
    indices, values = gradient.indices, gradient.values

    def row_of_zeros() -> tuple[tf.Tensor, tf.Tensor]:
        shape = tf.concat([[1], tf.shape(values)[1:]], axis=0)
        return -tf.ones([1], indices.dtype), tf.zeros(shape, values.dtype)

    has_rows = tf.size(indices) > 0
    indices, values = tf.cond(has_rows, lambda: (indices, values), row_of_zeros)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def absent_everywhere(is_absent: tf.Tensor) -> tf.Tensor:
    """Returns whether a variable has no gradient on any replica: `[num_variables] bool`."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return is_absent
    context = tf.distribute.get_replica_context()
    present = tf.cast(tf.logical_not(is_absent), tf.float32)
    return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, present), 0)


def _clips_itself(optimizer: Any) -> bool:
    """Returns whether an optimizer of Keras clips the gradients that it is given."""
    return any(getattr(part, name, None) for part in parts_of(optimizer) for name in CLIPPINGS)


def _clipped(gradients: Sequence[Gradient], clipping: Clipping, optimizer: Any) -> list[Gradient]:
    """Clips the gradients of all variables, whose ``tf.IndexedSlices`` have unique rows.

    If the optimizer that gets them scales losses, the limit is that of unscaled gradients, and NaN
    and infinity are kept, so that the optimizer sees them.
    """
    kind, limit = clipping
    if hasattr(optimizer, "scale_loss"):
        limit = tf.cast(optimizer.scale_loss(tf.cast(limit, tf.float32)), tf.float64)
    values = [values_of(one) for one in gradients]
    if kind == "clipvalue":
        clipped = [_clipped_by_value(one, limit, is_loss_scaling(optimizer)) for one in values]
    else:
        squares = [_sum_of_squares(one) for one in values]
        if kind == "global_clipnorm":
            squares = [tf.add_n(squares)] * len(squares)
        pairs = zip(values, squares, strict=True)
        clipped = [_clipped_by_norm(one, tf.sqrt(square), limit) for one, square in pairs]
    return [with_values(one, each) for one, each in zip(gradients, clipped, strict=True)]


def _sum_of_squares(values: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the squares of a tensor's elements: `[] float64`."""
    if values.dtype.is_complex:
        return _sum_of_squares(tf.math.real(values)) + _sum_of_squares(tf.math.imag(values))
    if values.dtype in (tf.float16, tf.bfloat16):
        values = tf.cast(values, tf.float32)
    return 2 * tf.cast(tf.nn.l2_loss(values), tf.float64)


def _clipped_by_norm(values: tf.Tensor, norm: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    """Scales a tensor down if `norm` exceeds `limit`. If `norm` is not finite, returns NaNs."""
    spoilt = norm - norm  # NaN if the norm is not finite, and 0 otherwise.
    return values * tf.cast(limit / tf.maximum(norm, limit) + spoilt, values.dtype)


def _clipped_by_value(values: tf.Tensor, limit: tf.Tensor, keeps_non_finite: bool) -> tf.Tensor:
    limit = tf.cast(limit, values.dtype)
    clipped = tf.clip_by_value(values, -limit, limit)
    return tf.where(tf.math.is_finite(values), clipped, values) if keeps_non_finite else clipped
