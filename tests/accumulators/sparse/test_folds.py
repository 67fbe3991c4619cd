"""Tests of gradients that are merged after a few applies, because none may be held."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import Calls
from tests.accumulators.support.numerics import DTYPES, assert_same_bits
from tests.accumulators.support.rows import Rows
from tests.accumulators.support.sparse_reference import REDUCTIONS, random_rows, reference
from tests.processes.isolated import isolated
from tests.support.many_threads import FAR_AHEAD, many_threaded_session
from tests.support.waiting import Background, in_threads

v1 = tf.compat.v1
pytestmark = [pytest.mark.kinds("sparse"), isolated({"TF_CONDACC_HOLD_BYTES": "0"})]


@pytest.mark.parametrize("dtype", DTYPES)
def test_folded_gradients_have_the_same_bits(ours, dtype, rows_driver, seed):
    rng = np.random.default_rng(seed)
    for reduction in ("SUM",) if dtype.is_integer else REDUCTIONS:
        acc = rows_driver(ours, dtype, reduction_type=reduction)
        for step, count in enumerate((4, 5, 8, 9, 17, 33, 64, 100)):
            width = [(), (3,), (2, 2), (0,)][step % 4]
            gradients = [
                random_rows(rng, dtype, int(rng.integers(0, 60)), 200, width, "any")
                for _ in range(count)
            ]
            for gradient in gradients:
                acc.apply(gradient, step)
            assert acc.count() == count
            got, expected = acc.take(count), reference(gradients, dtype, reduction)
            np.testing.assert_array_equal(got.indices, expected.indices)
            assert_same_bits(got.values, expected.values)


def test_width_stays_pinned_and_errors_change_nothing(ours):
    acc = Calls(ours, tf.float32, rows=True, reduction_type="SUM")
    for _ in range(50):
        acc.apply(Rows([5, 1, 5], np.ones([3, 2])))
        for bad in (Rows([1], np.ones([1, 3])), Rows([-1], np.ones([1, 2]))):
            try:
                acc.apply(bad)
            except tf.errors.InvalidArgumentError:
                continue
            raise AssertionError("not refused")
    assert (acc.count(), acc.dropped()) == (50, 0)
    got = acc.take(50)
    np.testing.assert_array_equal(got.values, [[50.0, 50.0], [100.0, 100.0]])
    for _ in range(20):  # Nothing is left of the previous round or its width.
        acc.apply(Rows([9], np.ones([1, 3])), 1)
    got = acc.take(20)
    np.testing.assert_array_equal(got.indices, [9])
    np.testing.assert_array_equal(got.values, [[20.0] * 3])


def test_takes_become_ready_while_others_merge(ours):
    """Every accepted gradient is in exactly one take and is whole, whichever thread merges."""
    rows, width, appliers, applies = 4000, 16, 6, 80
    with tf.Graph().as_default() as graph:
        number = v1.placeholder(tf.float64, [])
        required = v1.placeholder(tf.int32, [])
        acc = ours.sparse(tf.float64, reduction_type="SUM")
        indices = tf.random.shuffle(tf.range(rows), seed=1)
        apply = acc.apply_grad(indices, tf.fill([rows, width], number), None, FAR_AHEAD)
        take, count = acc.take_grad(required), acc.num_accumulated()
    session = many_threaded_session(graph)

    def total(taken: Any) -> float:
        np.testing.assert_array_equal(taken.indices, np.arange(rows))
        assert np.all(taken.values == taken.values[0, 0]), "torn"
        return float(taken.values[0, 0])

    def apply_all(index: int) -> float:
        rng, applied = random.Random(index), 0.0
        for _ in range(applies):
            value = float(rng.randrange(1, 1000))
            session.run(apply, {number: value})
            applied += value
        return applied

    takers = [Background(lambda: total(session.run(take, {required: 9}))) for _ in range(5)]
    applied = sum(in_threads(*(functools.partial(apply_all, i) for i in range(appliers))))
    while not all(taker.done for taker in takers):
        session.run(apply, {number: 1.0})
        applied += 1.0
    taken = sum(taker.result() for taker in takers)
    left = session.run(count)
    if left:
        taken += total(session.run(take, {required: left}))
    assert taken == applied
