"""Random programs of sparse gradients, compared with a merge by brute force."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.random_programs import RandomProgram
from tests.accumulators.support.rows import Rows, assert_rows
from tests.accumulators.support.sparse_reference import REDUCTIONS, random_rows, reference

pytestmark = pytest.mark.kinds("sparse")

OPERATIONS = 120
WIDTHS = [(), (1,), (5,), (2, 3), (0,), (1, 1, 2, 2)]


@dataclasses.dataclass
class Model:
    """A model of a sparse accumulator: it keeps its gradients and merges them in a take."""

    dtype: tf.DType
    reduction: str
    step: int = 0
    dropped: int = 0
    gradients: list[Rows] = dataclasses.field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.gradients)

    def apply(self, rows: Rows, local_step: int) -> bool:
        if local_step < self.step:
            self.dropped += 1
            return False
        self.gradients.append(rows)
        return True

    def take(self) -> Rows:
        merged = reference(self.gradients, self.dtype, self.reduction)
        self.gradients, self.step = [], self.step + 1
        return merged


class Program(RandomProgram):
    """A program of sparse gradients of any order, number and width of rows."""

    def __init__(self, rng: random.Random, acc, model: Model):
        super().__init__(rng, acc, model)
        self.moves.append(self.misfit)
        self.next_round()

    def next_round(self) -> None:
        self.width = self.rng.choice(WIDTHS)
        self.num_rows = self.rng.choice([1, 3, 20, 400, 2**40])

    def gradient(self) -> Rows:
        # TensorFlow's own accumulator returns correct results only for ascending rows.
        order = self.rng.choice(["any", "ascending"] if self.ours else ["ascending"])
        size = self.rng.choice([0, 1, 2, 5, 17, 100])
        num_rows = self.num_rows
        if order == "ascending":
            num_rows = min(num_rows, 500)
        rows = random_rows(self.np_rng, self.model.dtype, size, num_rows, self.width, order)
        shape = self.rng.choice([None, None, [self.num_rows, *self.width]])
        return rows._replace(shape=shape)

    def misfit(self) -> None:
        if self.model.count:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
                self.acc.apply(Rows([0], np.ones([1, *self.width, 2])), self.model.step)

    def check_taken(self, value: Rows) -> None:
        expected = self.model.take()
        assert_rows(value, expected.indices, expected.values, [-1, *self.width])
        self.next_round()


def run_programs(driver, impl, seed, num_programs, dtype, reduction):
    for number in range(num_programs):
        acc = driver(impl, dtype, reduction_type=reduction)
        Program(random.Random(seed + number), acc, Model(dtype, reduction)).run(OPERATIONS)


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_random_programs_do_what_the_brute_force_does(
    impl, rows_driver, seed, num_programs, reduction, dtype
):
    run_programs(rows_driver, impl, seed, num_programs, dtype, reduction)


FURTHER = [(tf.float32, "GLOBAL_MEAN"), (tf.int32, "SUM"), (tf.int64, "SUM")]
FURTHER += [(d, r) for d in (tf.float16, tf.bfloat16, tf.complex64) for r in REDUCTIONS]
FURTHER += [(tf.complex128, "MEAN"), (tf.float64, "GLOBAL_MEAN")]


@pytest.mark.parametrize(("dtype", "reduction"), FURTHER, ids=[f"{d.name}-{r}" for d, r in FURTHER])
def test_random_programs_with_what_only_ours_has(
    ours, rows_driver, seed, num_programs, dtype, reduction
):
    run_programs(rows_driver, ours, seed, num_programs, dtype, reduction)
