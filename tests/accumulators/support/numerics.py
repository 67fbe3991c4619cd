"""Random gradients, a NumPy model of their sum, and the ways in which they reach an accumulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver

v1 = tf.compat.v1

PATHS = ["fed", "owned", "eager", "waiting"]
_REAL_PARTS = {tf.float64: np.float64, tf.complex128: np.float64}


class OwnedDriver(GraphDriver):
    """Applies gradients that the step itself has computed, so that nothing else holds them."""

    def _build(self, acc: Any) -> None:
        fed = self.gradient
        self.one = v1.placeholder(self.dtype, [])
        self.gradient = fed * self.one
        super()._build(acc)
        self.gradient = fed

    def _gradient_feed(self, value: Any, step: Any) -> dict:
        return super()._gradient_feed(value, step) | {self.one: 1}


def is_narrow(dtype: tf.DType, reduction: str, path: str) -> bool:
    """Returns whether `make test` runs a test of numerics with these parameters.

    It runs each dtype and each reduction on one path, and float32 and bfloat16 on all of them.
    """
    if path != "owned":
        return reduction == "MEAN" and dtype in (tf.float32, tf.bfloat16)
    return reduction == "MEAN" or dtype in (tf.float32, tf.int32, tf.int64)


def as_arrived(gradients: np.ndarray) -> np.ndarray:
    """Adds one gradient after another; each addition is rounded to the gradients' own dtype."""
    total = gradients[0].copy()
    for gradient in gradients[1:]:
        total = total + gradient
    return total


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


def make_driver(impl: Any, path: str, dtype: Any, reduction: str, device: Any = None) -> Any:
    """Makes the driver of a path; "waiting" is the path "owned" with the take queued first."""
    kinds = {"fed": GraphDriver, "owned": OwnedDriver, "eager": EagerDriver}
    kind = kinds.get(path, OwnedDriver)
    return kind(impl, dtype, reduction_type=reduction, device=device)


def total_through(acc: Any, path: str, gradients: np.ndarray, step: int) -> np.ndarray:
    """Applies the gradients one after another and takes them all."""
    count = len(gradients)
    waiting = acc.start_take(count) if path == "waiting" else None
    for gradient in gradients:
        acc.apply(gradient, step)
    return waiting.result() if waiting else acc.take(count)
