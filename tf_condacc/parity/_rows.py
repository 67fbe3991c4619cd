"""Sums of the rows that repeat in sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators.replica_updates import sum_on_first_replica
from tf_condacc._typing import GradientAndVariable


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
    return [
        (
            sum_on_first_replica(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient,
            variable,
        )
        for gradient, variable in pairs
    ]
