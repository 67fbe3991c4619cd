"""Random gradients, a NumPy model of their sum, and the ways in which they reach an accumulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.accumulators.support.calls import Calls, OwnedCalls, SessionCalls

# How gradients reach an accumulator. "waiting" is "owned" with the take queued first.
PATHS = {"owned": OwnedCalls, "fed": SessionCalls, "eager": Calls, "waiting": OwnedCalls}
HALVES = (tf.float16, tf.bfloat16)
INTEGERS = (tf.int32, tf.int64)
DTYPES = (*HALVES, tf.float32, tf.float64, tf.complex64, tf.complex128, *INTEGERS)
# Each type takes one path, and two types take all paths. The C++ tests have all sizes and orders.
PATHS_AND_DTYPES = [
    *(("owned", dtype) for dtype in DTYPES),
    *((path, dtype) for path in list(PATHS)[1:] for dtype in (tf.float32, tf.bfloat16)),
]
_REAL_PARTS = {tf.float64: np.float64, tf.complex128: np.float64}


def as_arrived(gradients: np.ndarray) -> np.ndarray:
    """Adds one gradient after another; each addition is rounded to the gradients' own dtype."""
    total = gradients[0].copy()
    for gradient in gradients[1:]:
        total = total + gradient
    return total


def arrived_sum(gradients: Any, dtype: tf.DType, reduction: str) -> np.ndarray:
    """Sums in order of arrival; float16 and bfloat16 in float32, rounded once at the end."""
    total = as_arrived(gradients.astype(np.float32) if dtype in HALVES else gradients)
    total = divided(total, len(gradients)) if reduction == "MEAN" else total
    return total.astype(dtype.as_numpy_dtype)


def divided(total: np.ndarray, count: int) -> np.ndarray:
    """Divides each real or imaginary part by the count, in the total's own precision."""
    parts = total.real.dtype.type
    flat = np.ascontiguousarray(total).reshape(-1).view(parts)
    return (flat / parts(count)).view(total.dtype).reshape(total.shape)


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.tobytes() != expected.tobytes():
        np.testing.assert_array_equal(got, expected)
        raise AssertionError("equal values of different bits: the signs of zeros or NaNs differ")


def random_gradients(rng: Any, dtype: tf.DType, count: int, size: int) -> np.ndarray:
    """Returns numbers of very different magnitudes, so that every reordering changes the sum."""
    kind = dtype.as_numpy_dtype
    if dtype.is_integer:
        return rng.integers(-(2**20), 2**20, (count, size)).astype(kind)
    powers = np.exp2(np.arange(-8, 8), dtype=_REAL_PARTS.get(dtype, np.float32))
    scales = powers[rng.integers(0, len(powers), (count, size), dtype=np.int8)]
    values = scales * rng.standard_normal((count, size), scales.dtype)
    if dtype.is_complex:
        values = values + 1j * (scales * rng.standard_normal((count, size), scales.dtype))
    return values.astype(kind, copy=False)


def total_through(acc: Any, path: str, gradients: Sequence[Any], step: int) -> Any:
    """Applies the gradients one after another and takes them all."""
    count = len(gradients)
    waiting = acc.start_take(count) if path == "waiting" else None
    for gradient in gradients:
        acc.apply(gradient, step)
    return waiting.result() if waiting else acc.take(count)


SPECIAL = np.float32([np.inf, -np.inf, np.nan, -0.0, 0.0, -0.0, 3e38, np.inf])
OTHERS = np.float32([1.0, 1.0, 1.0, -0.0, -0.0, 0.0, 3e38, -np.inf])
ROUNDS_OF_SPECIALS = [[SPECIAL], [SPECIAL, OTHERS], [OTHERS, SPECIAL] * 6]


def assert_same_specials(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(got, expected)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])


# Each row has how many times a float16 is added, the float16, and the mean that rounding after each
# addition would give.
HALF_CASES = {(4096, 1.0): 0.5, (4096, 0.1): 0.0625, (3, 30000.0): np.inf, (66000, 1.0): 0.0}
