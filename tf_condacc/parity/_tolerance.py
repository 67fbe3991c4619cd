"""The difference of weights that rounding errors explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import tensorflow as tf

from tf_condacc._typing import DTypeLike


@dataclass(frozen=True)
class Tolerance:
    """The difference of weights that rounding errors explain, for each step and variable.

    Let u be the unit roundoff of a variable's data type (half its machine epsilon; 6e-8 for
    float32), N the number of examples in a batch, and w the weights of one big batch. The tolerance
    after step t is::

        factor · u · sum over s = 1 … t of (max |w_s| + N · max |w_s - w_(s-1)|)

    The first term is the rounding of a weight. The second bounds the error of a sum of N gradients,
    with the largest update of any variable for their magnitudes: a variable's own update may be
    small because its summands cancel each other. The page docs/guides/parity.md says when the bound
    does not hold.

    Args:
        factor: The factor.
        dtype: A data type less precise than that of the variables, if the model computes in it.
        num_summands: Number of summands of a gradient, if it is not the number of examples.
    """

    factor: float = 8.0
    dtype: DTypeLike | None = None
    num_summands: int | None = None

    def limits(self, weights: Sequence[Sequence[np.ndarray]], num_examples: int) -> np.ndarray:
        """Returns the tolerance of each variable before the first and after each step.

        Args:
            weights: For the initial state and for each step, the values of the variables.
            num_examples: Number of examples in a batch.

        Returns:
            An array `[1 + steps, variables] float64`.
        """
        number = self.num_summands or num_examples
        limits = np.zeros([len(weights), len(weights[0])])
        for step in range(1, len(weights)):
            before, after = weights[step - 1], weights[step]
            moved = max(largest(b, a) for b, a in zip(before, after, strict=True))
            for index, value in enumerate(after):
                size = largest(value, np.zeros_like(value))
                added = self._roundoff(value.dtype) * (size + number * moved)
                limits[step, index] = limits[step - 1, index] + self.factor * added
        return limits

    def _roundoff(self, dtype: np.dtype) -> float:
        types = [dtype] if self.dtype is None else [dtype, tf.as_dtype(self.dtype).as_numpy_dtype]
        return max(float(ml_dtypes.finfo(each).eps) / 2 for each in types)


def limits_of(
    tolerance: Tolerance | float | None,
    weights: Sequence[Sequence[np.ndarray]],
    num_examples: int,
) -> np.ndarray:
    """Returns the limits of a tolerance, of the default one, or of a number for all variables.

    Returns:
        An array `[1 + steps, variables] float64`.

    Raises:
        ValueError: The tolerance is negative or not finite.
    """
    if tolerance is None or isinstance(tolerance, Tolerance):
        return (tolerance or Tolerance()).limits(weights, num_examples)
    if not 0 <= tolerance < np.inf:
        raise ValueError(f"tolerance: expected a finite number of at least 0, got {tolerance}")
    return np.full([len(weights), len(weights[0])], float(tolerance))


def wide(value: np.ndarray) -> np.ndarray:
    """Returns an array as float64 or complex128."""
    return np.asarray(value).astype(np.result_type(np.asarray(value).dtype, np.float64))


def largest(one: np.ndarray, other: np.ndarray) -> float:
    """Returns the largest difference of two arrays; NaN if one of them is not finite."""
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(wide(one) - wide(other)), initial=0.0))
