"""Tests of `reset`, which discards the accumulated gradients and sets the step atomically."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.contribution_drivers import (
    ADDED,
    STALE,
    ContributionEagerDriver,
)
from tests.support.accumulator_support import every_kind
from tests.support.many_threads import in_threads

v1 = tf.compat.v1
pytestmark = every_kind


@pytest.mark.parametrize("step", [7, 0, -3, 2**63 - 1, -(2**63)])
def test_discards_all_gradients_and_sets_the_step(contributions, step):
    acc = contributions(tf.float32, [1])
    acc.set_step(3)
    for value in (1.0, 2.0, 4.0):
        acc.apply([value], 3)
    assert acc.reset(step) == 3
    assert (acc.count(), acc.step()) == (0, step)
    acc.apply([8.0], step)
    assert acc.reset(0) == 1
    acc.apply([16.0], 0)
    np.testing.assert_array_equal(acc.take(1), [16.0])


def test_of_an_empty_accumulator_sets_the_step(contributions):
    acc = contributions(tf.float32, [1])
    assert acc.reset(4) == 0
    assert acc.step() == 4
    assert acc.reset(2) == 0
    assert acc.step() == 2


def test_many_gradients_are_discarded_whatever_has_been_added_up(contributions):
    acc = contributions(tf.float32, [1000])
    for count in (1, 7, 8, 30):
        for _ in range(count):
            acc.apply(np.ones([1000]))
        assert acc.reset(0) == count
    acc.apply(np.full([1000], 2.0))
    np.testing.assert_array_equal(acc.take(1), np.full([1000], 2.0))


def test_contributors_may_come_again(contributions):
    acc = contributions(tf.float32, [1])
    for step in (5, 5, 2):
        assert acc.reset(step) in (0, 1)
        assert acc.contribute([1.0], 3, step) == ADDED
    assert acc.contribute([1.0], 3, 1) == STALE


def test_number_of_drops_stays(contributions):
    acc = contributions(tf.float32, [1])
    acc.apply([1.0], -1)
    acc.apply([1.0], 0)
    acc.reset(0)
    assert acc.dropped() == 1


def test_waiting_takes_wait_on(contributions):
    acc = contributions(tf.float32, [1])
    waiting = acc.start_take(3)
    acc.apply([1.0])
    acc.apply([1.0])
    assert acc.reset(6) == 2
    assert not waiting.done
    for value in (2.0, 4.0, 6.0):
        assert not waiting.done
        acc.apply([value], 6)
    np.testing.assert_array_equal(waiting.result(), [4.0])
    assert acc.step() == 7


def test_another_shape_may_follow(contributions):
    acc = contributions(tf.float32, None)
    acc.apply([[1.0, 2.0]])
    acc.reset(0)
    acc.apply([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(acc.take(1), [[1.0, 2.0, 3.0]])


def test_type_static_shape_and_name_in_a_graph(ours):
    with tf.Graph().as_default():
        acc = ours.public(tf.float32, [1], name="Q")
        discarded = acc.reset(v1.placeholder(tf.int32, None))
        assert (discarded.dtype, discarded.shape.as_list()) == (tf.int64, [])
        prefix = ours.nameless["set_global_step"].removesuffix("SetGlobalStep")
        assert discarded.op.name == f"{prefix}Reset"
        assert acc.reset(1, name="again").op.name == "again"
        with pytest.raises(ValueError, match="must be rank 0"):
            acc.reset([1])


def test_nothing_is_lost_or_counted_twice_under_load(ours):
    acc = ContributionEagerDriver(ours, tf.float32, [100], reduction_type="SUM")

    def push():
        for _ in range(400):
            acc.apply(np.ones([100]), 2**40)
        return 400

    def discard():
        return -sum(acc.reset(step) for step in range(60))

    def take():
        total = 0
        for _ in range(150):
            taken, value = acc.try_take(3)
            if taken:
                assert np.all(value == value[0]), "torn"
                total += int(value[0])
        return -total

    outstanding = sum(in_threads(push, push, push, discard, take, take))
    assert outstanding == acc.reset(0)
