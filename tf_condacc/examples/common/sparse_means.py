"""A comparison of an accumulator's mean of sparse gradients with the mean that NumPy computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

# The accepted rounding error of a mean, relative to the largest sum of magnitudes in its row.
_ROUNDING = 1e-5


class Comparison(NamedTuple):
    """The result of a comparison.

    Attributes:
        rows: Number of different rows that the accumulator returned.
        repeated: Number of rows that it returned more than once.
        wrong: Number of rows with a wrong mean. Repeated rows are summed first, as optimizers sum
            them.
    """

    rows: int
    repeated: int
    wrong: int


def compare(
    accumulator_class: Callable[..., v1.SparseConditionalAccumulator],
    gradients: Sequence[tf.IndexedSlices],
) -> Comparison:
    """Applies gradients of one variable to an accumulator, and checks the mean that it returns.

    Args:
        accumulator_class: Class of sparse accumulators.
        gradients: The gradients, whose components are NumPy arrays: the values are `[nnz, width]
            float32`.
    """
    shape = tuple(gradients[0].dense_shape)
    with tf.Graph().as_default(), v1.Session() as session:
        indices = v1.placeholder(tf.int64, [None])
        values = v1.placeholder(tf.float32, [None, shape[1]])
        accumulator = accumulator_class(tf.float32, shape=shape)
        push = accumulator.apply_grad(indices, values)
        take = accumulator.take_grad(len(gradients))
        for gradient in gradients:
            session.run(push, {indices: gradient.indices, values: gradient.values})
        taken = session.run(take)

    total, magnitude, count = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
    for gradient in gradients:
        np.add.at(total, gradient.indices, gradient.values)
        np.add.at(magnitude, gradient.indices, np.abs(gradient.values))
        count[np.unique(gradient.indices)] += 1
    expected = total / np.maximum(count, 1)[:, np.newaxis]
    returned = np.zeros(shape)
    np.add.at(returned, taken.indices, taken.values)
    difference = np.abs(returned - expected).max(axis=1)
    wrong = difference > _ROUNDING * np.maximum(magnitude.max(axis=1), np.finfo(np.float32).tiny)
    times = np.bincount(taken.indices, minlength=shape[0])
    return Comparison(*(int(np.count_nonzero(which)) for which in (times, times > 1, wrong)))
