"""Takes from accumulators on the emulated GPU have the bits of numpy's sums."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from emulated_gpu import num_pushed

import tf_condacc
from tf_condacc._ops.native import ops

v1 = tf.compat.v1

NUM_TRIALS = int(os.environ.get("TF_CONDACC_TEST_ROUNDS", 12))
NUM_ROUNDS = 3
DTYPES = [np.float32, np.float64, np.float16, np.complex64, np.int64]
TAKE_TIMEOUT_SECS = 60


def sum_of(gradients: list[np.ndarray], mean: bool) -> np.ndarray:
    dtype = gradients[0].dtype
    total = gradients[0].astype(np.float32 if dtype == np.float16 else dtype)
    for gradient in gradients[1:]:
        total = total + gradient.astype(total.dtype)
    if mean and dtype == np.complex64:  # Each part is divided.
        count = np.float32(len(gradients))
        total = total.real / count + 1j * (total.imag / count)
    elif mean:
        total = total / total.dtype.type(len(gradients))
    return total.astype(dtype)


def sum_of_rows(gradients: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[int], np.ndarray]:
    sums: dict[int, np.ndarray] = {}
    for rows, values in gradients:
        for row, value in zip(rows.tolist(), values, strict=True):
            sums[row] = sums[row] + value if row in sums else value
    return sorted(sums), np.array([sums[row] for row in sorted(sums)])


class DenseCase:
    """An accumulator of a random shape and dtype; its gradients are computed, and so its own."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        self.mean = self.dtype != np.int64 and rng.integers(2) == 0
        self.size = int(rng.choice([1, 7, 1001, 20000, 300000]))
        self.num_gradients = int(rng.integers(1, 20))
        self.step = v1.placeholder(tf.int64, [])
        self.fed = v1.placeholder(self.dtype, [self.size])
        accumulator = tf_condacc.ConditionalAccumulator(
            self.dtype, shape=[self.size], reduction_type="MEAN" if self.mean else "SUM"
        )
        self.apply = accumulator.apply_grad(self.fed * tf.constant(1, self.dtype), self.step)
        self.take = tf.identity(accumulator.take_grad(self.num_gradients))
        self.apply_and_take = tf.identity(
            ops.condacc_dense_apply_take(
                accumulator.accumulator_ref,
                self.step,
                self.fed * tf.constant(1, self.dtype),
                self.num_gradients,
            )
        )

    def draw(self) -> list[np.ndarray]:
        scale = 1000 if self.dtype == np.int64 else 1
        return [
            (self.rng.standard_normal(self.size) * scale).astype(self.dtype)
            for _ in range(self.num_gradients)
        ]

    def feeds(self, gradient: np.ndarray, step: int) -> dict:
        return {self.fed: gradient, self.step: step}

    def check(self, taken: np.ndarray, gradients: list[np.ndarray]) -> None:
        np.testing.assert_array_equal(taken, sum_of(gradients, self.mean))


class SparseCase:
    """The same of rows."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.num_rows = int(rng.choice([5, 300, 20000]))
        self.width = int(rng.choice([1, 3, 16]))
        self.num_gradients = int(rng.integers(1, 40))
        self.step = v1.placeholder(tf.int64, [])
        self.rows = v1.placeholder(tf.int64, [None])
        self.values = v1.placeholder(tf.float32, [None, self.width])
        accumulator = tf_condacc.SparseConditionalAccumulator(
            tf.float32, shape=[self.num_rows, self.width], reduction_type="SUM"
        )
        self.apply = accumulator.apply_grad(self.rows + 0, self.values * 1.0, None, self.step)
        taken = accumulator.take_indexed_slices_grad(self.num_gradients)
        self.take = [tf.identity(taken.indices), tf.identity(taken.values)]

    def draw(self) -> list[tuple[np.ndarray, np.ndarray]]:
        sizes = self.rng.integers(1, 400, self.num_gradients)
        return [
            (
                self.rng.integers(0, self.num_rows, size),
                self.rng.standard_normal((size, self.width)).astype(np.float32),
            )
            for size in sizes
        ]

    def feeds(self, gradient: tuple[np.ndarray, np.ndarray], step: int) -> dict:
        return {self.rows: gradient[0], self.values: gradient[1], self.step: step}

    def check(self, taken: list[np.ndarray], gradients: list) -> None:
        rows, values = sum_of_rows(gradients)
        np.testing.assert_array_equal(taken[0], rows)
        np.testing.assert_array_equal(taken[1], values)


def run_round(session: Any, case: Any, step: int, take_waits: bool, pool: Any) -> Callable:
    """Starts a take and pushes gradients by one thread, so that their order is known.

    Returns:
        A function that waits for the take and checks what it has returned.
    """
    gradients = case.draw()

    def push() -> None:
        for gradient in gradients:
            session.run(case.apply, case.feeds(gradient, step))

    def take() -> Any:
        return session.run(case.take)

    if take_waits:
        taken, pushed = pool.submit(take), pool.submit(push)
    else:
        pushed = pool.submit(push)
        taken = pool.submit(lambda: (pushed.result(), take())[1])

    def check() -> None:
        pushed.result(TAKE_TIMEOUT_SECS)
        case.check(taken.result(TAKE_TIMEOUT_SECS), gradients)

    return check


@pytest.mark.parametrize("trial", range(NUM_TRIALS))
def test_takes_have_the_bits_of_numpy(seed: int, trial: int) -> None:
    rng = np.random.default_rng([seed, trial])
    before = num_pushed()
    with tf.Graph().as_default() as graph, ThreadPoolExecutor() as pool:
        cases = [DenseCase(rng), SparseCase(rng)]
        config = v1.ConfigProto(allow_soft_placement=False)
        with v1.Session(graph=graph, config=config) as session:
            for step in range(NUM_ROUNDS):
                take_waits = bool(rng.integers(2))
                checks = [run_round(session, case, step, take_waits, pool) for case in cases]
                for check in checks:
                    check()
            dense, step = cases[0], NUM_ROUNDS
            gradients = dense.draw()
            *first, last = [dense.feeds(gradient, step) for gradient in gradients]
            for feeds in first:
                session.run(dense.apply, feeds)
            dense.check(session.run(dense.apply_and_take, last), gradients)
    assert num_pushed() > before, "nothing was put on the stream of the GPU"
