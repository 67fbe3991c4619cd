"""Sums of the rows that repeat in sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import GradientAndVariable


def for_optimizer(
    optimizer: Any, pairs: Sequence[GradientAndVariable]
) -> list[GradientAndVariable]:
    """Returns gradients whose repeated rows are summed if the optimizer is one of Keras.

    Such optimizers, except plain gradient descent, take each of several ``tf.IndexedSlices`` rows
    of one index for a gradient of its own: they square or clip it before they add it to the others.
    Optimizers of ``tf.compat.v1.train`` sum the rows themselves.
    """
    return list(pairs) if isinstance(optimizer, v1.train.Optimizer) else summed(pairs)


def summed(pairs: Sequence[GradientAndVariable]) -> list[GradientAndVariable]:
    """Returns gradients with the sums of the repeated rows of all replicas."""
    return [
        (
            _sum_on_first_replica(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient,
            variable,
        )
        for gradient, variable in pairs
    ]


def _sum_on_first_replica(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Returns the sum of the rows of all replicas on the first replica, and no rows on the others.

    The product has such a function, too. This one is another, so that a fault of the product cannot
    change what it is compared with.
    """
    replica = tf.distribute.get_replica_context()
    everywhere = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
    indices, rows = tf.unique(everywhere.indices)
    values = tf.math.unsorted_segment_sum(everywhere.values, rows, tf.size(indices))
    if tf.get_static_value(replica.replica_id_in_sync_group) != 0:
        indices, values = indices[:0], values[:0]
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
