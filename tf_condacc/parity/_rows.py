"""Sums of the rows that repeat in sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators import replicas
from tf_condacc._typing import Gradient, GradientAndVariable


def summed(optimizer: Any, pairs: Sequence[GradientAndVariable]) -> list[GradientAndVariable]:
    """Sums the repeated rows of sparse gradients, over all replicas, for an optimizer of Keras.

    Such optimizers, except plain gradient descent, take each of several ``tf.IndexedSlices`` rows
    of one index for a gradient of its own: they square or clip it before they add it to the others.
    Optimizers of ``tf.compat.v1.train`` sum the rows themselves, so their gradients stay as they
    are.

    Args:
        optimizer: The optimizer that will apply the gradients.
        pairs: Gradients and their variables.

    Returns:
        The same pairs, with ``tf.IndexedSlices`` of unique rows.
    """
    if isinstance(optimizer, v1.train.Optimizer):
        return list(pairs)
    gradients: list[Gradient] = [gradient for gradient, _ in pairs]
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        gradients = replicas.without_repeated_rows(gradients)
    else:
        gradients = [_unique(each) for each in gradients]
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs, strict=True)]


def _unique(gradient: Gradient) -> Gradient:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
