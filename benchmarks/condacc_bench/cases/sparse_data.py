"""The rows of sparse gradients, and the mean that they must have. Row numbers are int64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

_EXPONENT = 1.05


def uniform(num_rows: int, rows: int, count: int) -> np.ndarray:
    """Returns ``count`` gradients of ``rows`` rows: ascending, unique and drawn evenly."""
    rng = np.random.default_rng(1)
    drawn = [rng.choice(num_rows, rows, replace=False, shuffle=False) for _ in range(count)]
    return np.sort(np.array(drawn, np.int64))


def drifting(num_rows: int, rows: int, count: int) -> np.ndarray:
    """Returns gradients like those of `uniform`, each drawn from a range of its own.

    The ranges have an eighth of all rows and move from the first rows to the last.
    """
    width = num_rows // 8
    starts = np.linspace(0, num_rows - width, count, dtype=np.int64)
    return uniform(width, rows, count) + starts[:, np.newaxis]


def power_law(num_rows: int, rows: int, count: int) -> np.ndarray:
    """Returns unordered, repeated rows like the words of a text: the k-th has frequency k^-1.05."""
    rng = np.random.default_rng(2)
    shares = np.cumsum(np.arange(1, num_rows + 1, dtype=np.float64) ** -_EXPONENT)
    row_of_rank = rng.permutation(num_rows)
    return row_of_rank[np.searchsorted(shares, rng.random((count, rows)) * shares[-1])]


def hashed(gradients: np.ndarray) -> np.ndarray:
    """Returns the same rows with other numbers, spread over all of 63 bits."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    return ((gradients.astype(np.uint64) * odd) & np.uint64(2**63 - 1)).astype(np.int64)


def with_slots(gradients: np.ndarray, num_slots: int = 26) -> np.ndarray:
    """Returns the same rows with a feature's number, one of ``num_slots``, in the highest bits."""
    return gradients | (gradients % num_slots << 50)


def sorted_and_unique(gradients: np.ndarray) -> np.ndarray:
    """Returns the same gradients without repeats, all as short as the shortest."""
    unique = [np.unique(gradient) for gradient in gradients]
    length = min(map(len, unique))
    return np.array([gradient[:length] for gradient in unique])


def deduplicate(indices: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sorts rows and sums repeated ones in the graph, as TensorFlow's own class requires."""
    unique, position = tf.unique(indices)
    order = tf.argsort(unique)
    segments = tf.gather(tf.math.invert_permutation(order), position)
    return tf.gather(unique, order), tf.math.unsorted_segment_sum(values, segments, tf.size(unique))


def mean(gradients: np.ndarray, values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that are in any gradient, ascending, and the mean of each.

    Gradient ``i`` has the value ``values[i]`` everywhere.
    """
    rows, places = np.unique(gradients, return_inverse=True)
    total, count = np.zeros(len(rows)), np.zeros(len(rows))
    for gradient, value in zip(places.reshape(gradients.shape), values, strict=True):
        repeats = np.bincount(gradient, minlength=len(rows))
        total += value * repeats
        count += repeats > 0
    return rows, total / count
