"""Sums of sparse gradients by brute force, and random gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.accumulators.support.numerics import HALVES, divided, random_gradients
from tests.accumulators.support.rows import Rows

REDUCTIONS = ("MEAN", "SUM", "GLOBAL_MEAN")


def occurrences(indices: np.ndarray) -> np.ndarray:
    """Returns, for each place, how many times the same row number stands before it."""
    places = np.argsort(indices, kind="stable")
    _, firsts, counts = np.unique(indices[places], return_index=True, return_counts=True)
    numbers = np.zeros(len(indices), np.int64)
    numbers[places] = np.arange(len(indices)) - np.repeat(firsts, counts)
    return numbers


def reference(gradients: Sequence[Rows], dtype: tf.DType, reduction: str) -> Rows:
    """Adds rows one after another in order of arrival, each addition rounded to the dtype.

    float16 and bfloat16 are added in float32 and rounded once at the end. With MEAN a row is
    divided by the number of gradients that contain it, with GLOBAL_MEAN by the number of all
    gradients, and with SUM it is not divided.
    """
    wide = np.float32 if dtype in HALVES else dtype.as_numpy_dtype
    rows = np.unique(np.concatenate([np.asarray(g.indices, np.int64) for g in gradients]))
    total = np.zeros((len(rows), *np.shape(gradients[0].values)[1:]), wide)
    counts = np.zeros(len(rows), np.int64)
    for gradient in gradients:
        places = np.searchsorted(rows, gradient.indices)
        values = np.asarray(gradient.values).astype(wide)
        number = occurrences(places)
        for turn in range(number.max(initial=-1) + 1):
            now = number == turn
            is_new = (counts[places] == 0) & (turn == 0)
            total[places[now & is_new]] = values[now & is_new]
            total[places[now & ~is_new]] += values[now & ~is_new]
        counts[np.unique(places)] += 1
    if reduction == "MEAN":
        for count in np.unique(counts):
            total[counts == count] = divided(total[counts == count], count)
    elif reduction == "GLOBAL_MEAN":
        total = divided(total, len(gradients))
    return Rows(rows, total.astype(dtype.as_numpy_dtype))


def random_rows(
    rng: Any, dtype: tf.DType, size: int, num_rows: int, width: tuple[int, ...], order: str
) -> Rows:
    """Makes a gradient of `size` rows below `num_rows`: "any", "unique" or "ascending"."""
    if order == "any":
        indices = rng.integers(0, num_rows, size)
    else:
        indices = rng.choice(num_rows, min(size, num_rows), replace=False)
    if order == "ascending":
        indices = np.sort(indices)
    values = random_gradients(rng, dtype, len(indices), int(np.prod(width)))
    return Rows(indices.astype(np.int64), values.reshape(len(indices), *width))
