"""A comparison of an accumulator's mean of sparse gradients with the mean that NumPy computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.backends import AccumulatorClass


@dataclass(frozen=True)
class Gradient:
    """A sparse gradient of a variable.

    Attributes:
        indices: Row numbers: `[nnz] int64`.
        values: The rows: `[nnz, width] float32`.
        shape: Shape of the variable.
    """

    indices: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]


# The accepted rounding error of a mean, relative to the largest sum of magnitudes in its row.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Comparison:
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

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.rows + other.rows, self.repeated + other.repeated, self.wrong + other.wrong
        )


def compare(accumulator_class: AccumulatorClass, gradients: Sequence[Gradient]) -> Comparison:
    """Applies gradients of one variable to an accumulator, and checks the mean that it returns.

    Args:
        accumulator_class: Class of sparse accumulators.
        gradients: The gradients.
    """
    shape = gradients[0].shape
    indices, values = _taken(accumulator_class, gradients)
    counts = np.bincount(indices, minlength=shape[0])
    taken = _dense(shape, indices, values)
    expected, magnitude = _mean(gradients, shape)
    difference = np.abs(taken - expected).max(axis=1)
    wrong = difference > _ROUNDING * np.maximum(magnitude, np.finfo(np.float32).tiny)
    return Comparison(
        rows=int(np.count_nonzero(counts)),
        repeated=int(np.count_nonzero(counts > 1)),
        wrong=int(np.count_nonzero(wrong)),
    )


def _taken(
    accumulator_class: AccumulatorClass, gradients: Sequence[Gradient]
) -> tuple[np.ndarray, np.ndarray]:
    with tf.Graph().as_default(), v1.Session() as session:
        width = gradients[0].values.shape[1]
        indices = v1.placeholder(tf.int64, [None])
        values = v1.placeholder(tf.float32, [None, width])
        accumulator = accumulator_class(tf.float32, shape=gradients[0].shape)
        push = accumulator.apply_grad(indices, values)
        take = accumulator.take_grad(len(gradients))
        for gradient in gradients:
            session.run(push, {indices: gradient.indices, values: gradient.values})
        taken = session.run(take)
        return taken.indices, taken.values


def _mean(gradients: Sequence[Gradient], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean of each row over the gradients that contain it, computed by NumPy.

    Returns:
        The means: `[rows, width]`; and the largest sum of magnitudes in each row: `[rows]`.
    """
    total, magnitude = np.zeros(shape), np.zeros(shape)
    count = np.zeros(shape[0])
    for gradient in gradients:
        total += _dense(shape, gradient.indices, gradient.values)
        magnitude += _dense(shape, gradient.indices, np.abs(gradient.values))
        count[np.unique(gradient.indices)] += 1
    count = np.maximum(count, 1)
    return total / count[:, np.newaxis], magnitude.max(axis=1)


def _dense(shape: tuple[int, ...], indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    dense = np.zeros(shape)
    np.add.at(dense, indices, values)
    return dense
