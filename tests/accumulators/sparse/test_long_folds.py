"""Tests of folds of so many bytes that they run in threads of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.processes.isolated import isolated

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")

ROWS, WIDTH = 40_000, 64
COUNT = 30  # Gradients of 10 MB: a fold begins before the last one.


def accumulator(ours: Any) -> tuple[Any, tf.Tensor, list[tf.Operation]]:
    """Returns an accumulator, a number, and applies of gradients whose values it multiplies."""
    number = v1.placeholder(tf.float32, [])
    acc = ours.sparse(tf.float32, reduction_type="SUM")
    row = tf.range(WIDTH, dtype=tf.float32)
    applies = []
    for i in range(COUNT):
        indices = tf.range(ROWS, dtype=tf.int64) * 3 + i % 3
        values = number * tf.cast(indices, tf.float32)[:, None] + row
        applies.append(acc.apply_grad(indices, values, local_step=2**40))
    return acc, number, applies


def check_rounds(ours: Any) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        acc, number, applies = accumulator(ours)
        take = acc.take_grad(COUNT)
        index = np.arange(3 * ROWS, dtype=np.float32)[:, None]
        for factor in (1, 2, 3):
            for apply in applies:
                session.run(apply, {number: factor})
            taken = session.run(take)
            np.testing.assert_array_equal(taken.indices, np.arange(3 * ROWS))
            expected = COUNT // 3 * (factor * index + np.arange(WIDTH, dtype=np.float32))
            np.testing.assert_array_equal(taken.values, expected)


def test_rounds_with_long_folds_are_right(ours):
    check_rounds(ours)


@pytest.mark.wide
@isolated({"TF_OVERRIDE_GLOBAL_THREADPOOL": "1"})
def test_rounds_with_long_folds_are_right_if_sessions_have_threads_of_their_own(ours):
    check_rounds(ours)


@isolated()
def test_a_session_ends_during_a_long_fold(ours):
    for _ in range(5):
        with tf.Graph().as_default(), v1.Session() as session:
            _, number, applies = accumulator(ours)
            for apply in applies[:27]:
                session.run(apply, {number: 1.0})
            session.run(applies[27], {number: 1.0})
