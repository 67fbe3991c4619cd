"""Random programs of accumulator operations, compared with a small model of the accumulator."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.random_programs import RandomProgram

OPERATIONS = 150


@dataclasses.dataclass
class Model:
    """A model of a dense accumulator of integer-valued gradients."""

    reduction: str
    step: int = 0
    count: int = 0
    dropped: int = 0
    total: np.ndarray | None = None

    def refuses(self, value: np.ndarray) -> bool:
        return self.count > 0 and self.total.shape != value.shape

    def apply(self, value: np.ndarray, local_step: int) -> bool:
        if local_step < self.step:
            self.dropped += 1
            return False
        self.total = value.copy() if self.count == 0 else self.total + value
        self.count += 1
        return True

    def take(self) -> np.ndarray:
        total = self.total.astype(np.float64)
        result = total / self.count if self.reduction == "MEAN" else total
        self.count, self.step = 0, self.step + 1
        return result


class Program(RandomProgram):
    """A program of dense gradients whose mean is exact as long as there are few of them."""

    max_count = 6

    def __init__(self, rng: random.Random, acc, model: Model):
        super().__init__(rng, acc, model)
        self.shapes = [(), (3,), (2, 5), (0, 2), (1, 1, 7)]
        self.shape = rng.choice(self.shapes)
        self.moves.append(self.odd_shape)

    def gradient(self, shape=None) -> np.ndarray:
        # Values are multiples of 720 below 2^22. float32 represents them exactly, even after they
        # are divided by 1 to 6.
        return 720.0 * self.np_rng.integers(-500, 500, self.shape if shape is None else shape)

    def odd_shape(self) -> None:
        value, step = self.gradient((4, 4)), self.local_step()
        if step < self.model.step:
            self.acc.apply(value, step)
            self.model.apply(value, step)
        elif self.model.refuses(value):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
                self.acc.apply(value, step)

    def check_taken(self, value: np.ndarray) -> None:
        np.testing.assert_array_equal(value, self.model.take())
        if self.rng.random() < 0.3:
            self.shape = self.rng.choice(self.shapes)


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_random_programs_do_what_the_model_does(impl, driver, seed, num_programs, reduction, dtype):
    for number in range(num_programs):
        rng = random.Random(seed + number)
        acc = driver(impl, dtype, reduction_type=reduction)
        Program(rng, acc, Model(reduction)).run(OPERATIONS)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.complex64, tf.complex128])
def test_random_programs_on_our_further_dtypes(ours, driver, seed, num_programs, dtype):
    for number in range(num_programs):
        rng = random.Random(seed + number)
        acc = driver(ours, dtype, reduction_type="SUM")
        Program(rng, acc, Model("SUM")).run(OPERATIONS)
