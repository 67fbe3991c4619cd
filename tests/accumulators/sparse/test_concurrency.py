"""Tests of many threads on one sparse accumulator: every accepted row counts exactly once."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.support.many_threads import FAR_AHEAD, in_threads, many_threaded_session

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")

NUM_ROWS = 300


def add(total, taken):
    assert np.all(np.diff(taken.indices) > 0), "rows go out ascending and unique"
    np.add.at(total, taken.indices, taken.values)


@pytest.mark.parametrize("width", [(), (40,)])
def test_random_rows_of_many_threads_add_up(ours, seed, width):
    with tf.Graph().as_default() as graph:
        indices = v1.placeholder(tf.int64, [None])
        values = v1.placeholder(tf.float64, [None, *width])
        step, required = v1.placeholder(tf.int64, []), v1.placeholder(tf.int32, [])
        acc = ours.sparse(tf.float64, [NUM_ROWS, *width], reduction_type="SUM")
        accepted = acc.try_apply_grad(indices, values, None, step)
        try_take, take = acc.try_take_grad(required), acc.take_grad(required)
        count, dropped = acc.num_accumulated(), acc.num_dropped()
        set_step = acc.set_global_step(step)
    session = many_threaded_session(graph)
    done = threading.Event()

    def apply(index):
        rng, total, drops = np.random.default_rng(seed + index), np.zeros([NUM_ROWS, *width]), 0
        for _ in range(120):
            rows = rng.integers(0, NUM_ROWS, rng.integers(0, 200))
            numbers = rng.integers(-99, 99, (len(rows), *width)).astype(np.float64)
            feed = {indices: rows, values: numbers, step: rng.integers(0, 60)}
            if session.run(accepted, feed):
                np.add.at(total, rows, numbers)
            else:
                drops += 1
        return total, drops

    def disturb():
        rng = random.Random(seed)
        while not done.is_set():
            session.run(set_step, {step: rng.randrange(60)})

    def take_some():
        total = np.zeros([NUM_ROWS, *width])
        while not done.is_set():
            taken, value = session.run(try_take, {required: 5})
            if taken:
                add(total, value)
        return total

    def apply_all():
        try:
            return in_threads(*(lambda i=i: apply(i) for i in range(5)))
        finally:
            done.set()

    applied, _, *taken = in_threads(apply_all, disturb, take_some, take_some)
    left = session.run(count)
    if left:
        rest = np.zeros([NUM_ROWS, *width])
        add(rest, session.run(take, {required: left}))
        taken.append(rest)
    np.testing.assert_array_equal(sum(taken), sum(total for total, _ in applied))
    assert session.run(dropped) == sum(drops for _, drops in applied)


def test_own_count_of_a_row_is_that_of_its_gradients_whoever_applied_them(ours, seed):
    """All values of all gradients are 1, so every mean is 1, despite repeated rows and threads."""
    acc = ours.sparse(tf.float32)

    def apply(index):
        rng = np.random.default_rng(seed + index)
        for _ in range(100):
            rows = rng.permutation(NUM_ROWS)[: rng.integers(0, 100)]
            acc.apply_grad(rows, np.ones([len(rows), 3], np.float32), local_step=FAR_AHEAD)

    def take():
        for _ in range(20):
            taken = acc.take_grad(5)
            np.testing.assert_array_equal(taken.values, np.ones([len(taken.indices), 3]))

    def feed_until(finished):
        while not finished.is_set():
            acc.apply_grad([0], np.ones([1, 3], np.float32), local_step=FAR_AHEAD)

    finished = threading.Event()

    def take_all():
        try:
            in_threads(take, take)
        finally:
            finished.set()

    in_threads(take_all, lambda: feed_until(finished), *(lambda i=i: apply(i) for i in range(4)))
