"""Tests of contributions: at most one gradient of each contributor counts in a round."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.support.contribution_drivers import (
    ADDED,
    AHEAD,
    DUPLICATE,
    STALE,
    ContributionEagerDriver,
)
from tests.support.accumulator_support import every_kind, unique_name

pytestmark = every_kind
InvalidArgument = tf.errors.InvalidArgumentError


def test_every_outcome_is_true_as_a_condition():
    # If a success were 0, `if apply_contribution(...)` would read as if it had been refused.
    assert all(tf_condacc.ApplyOutcome)


def test_gradients_complete_a_waiting_take_and_duplicates_do_not(contributions):
    acc = contributions(tf.float32, [1])
    waiting = acc.start_take(2)
    assert [acc.contribute([float(i)], 0) for i in (1, 2, 3)] == [ADDED, DUPLICATE, DUPLICATE]
    assert acc.contribute([3.0], 1) == ADDED
    np.testing.assert_array_equal(waiting.result(), [2.0])


@pytest.mark.parametrize("contributor", [-1, -(2**63)])
def test_negative_contributors_are_refused(contributions, contributor):
    acc = contributions(tf.float32, [1], name="picky")
    for step in (-1, 0, 1):
        with pytest.raises(
            InvalidArgument,
            match=rf"contributor must not be negative, but was {contributor} \(accumulator '",
        ):
            acc.contribute([1.0], contributor, step)
    assert (acc.count(), acc.dropped()) == (0, 0)


def test_after_an_error_the_contributor_may_come_again(contributions):
    acc = contributions(tf.float32, None, reduction_type="SUM")
    assert acc.contribute([10.0, 20.0], 3) == ADDED
    with pytest.raises(InvalidArgument, match="hape"):
        acc.contribute(np.ones([2, 2]), 4)
    assert acc.contribute([1.0, 2.0], 4) == ADDED
    assert acc.contribute(np.ones([2, 2]), 4) == DUPLICATE, "a duplicate is not looked at"
    assert acc.contribute(np.ones([2, 2]), 5, -1) == STALE
    assert acc.contribute(np.ones([2, 2]), 5, 1) == AHEAD
    np.testing.assert_array_equal(acc.take(2), [11.0, 22.0])


def test_contributors_are_known_to_all_that_share_the_accumulator(ours):
    name = unique_name("shared")
    first, second = (
        ContributionEagerDriver(ours, tf.float32, [1], shared_name=name) for _ in range(2)
    )
    assert first.contribute([1.0], 2) == ADDED
    assert second.contribute([1.0], 2) == DUPLICATE
    assert second.contribute([1.0], 3) == ADDED
    assert first.count() == 2


def test_a_function_orders_contributions_and_takes(ours):
    acc = ours.dense(tf.float32, [1], reduction_type="SUM")

    @tf.function
    def program(step):
        outcomes = [acc.apply_contribution([1.0], i % 2, step) for i in range(3)]
        taken, value = acc.try_take_grad(2, global_step=step)
        return outcomes, taken, value, acc.reset(step + 5)

    for step in (0, 5):
        outcomes, taken, value, discarded = program(tf.constant(step, tf.int64))
        assert [int(o) for o in outcomes] == [ADDED, ADDED, DUPLICATE]
        assert bool(taken) and int(discarded) == 0
        np.testing.assert_array_equal(value, [2.0])
