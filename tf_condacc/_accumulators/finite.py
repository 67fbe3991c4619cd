"""The check whether the gradients of a micro-batch are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._typing import Gradient

_HAS_NON_FINITE = 2  # The mode whose second output is 1 if an element is not finite, otherwise 0.


def is_any_not_finite(
    gradients: Sequence[Gradient], weight: tf.Tensor | None = None
) -> tf.Tensor | bool:
    """Returns whether any gradient of any replica has a NaN or an infinity: `[] bool`.

    The gradients of a replica whose weight is 0 do not matter: they add zeros.

    The operation of TensorFlow's debugger reads each element once and writes nothing, unlike
    ``tf.reduce_all(tf.math.is_finite(...))``. Several gradients are checked in parallel.

    Args:
        gradients: The gradients of this replica.
        weight: Their weight: `[] float64`; None for 1.
    """
    values = [one.values if isinstance(one, tf.IndexedSlices) else one for one in gradients]
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
