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
from tests.support.accumulator_support import Background, every_kind, unique_name
from tests.support.many_threads import in_threads

pytestmark = every_kind
InvalidArgument = tf.errors.InvalidArgumentError


def test_the_first_gradient_of_a_contributor_counts(contributions):
    acc = contributions(tf.float32, [1], reduction_type="SUM")
    outcomes = [acc.contribute([2.0**i], contributor) for i, contributor in enumerate([5, 5, 6, 5])]
    assert outcomes == [ADDED, DUPLICATE, ADDED, DUPLICATE]
    assert acc.count() == 2
    np.testing.assert_array_equal(acc.take(2), [1.0 + 4.0])


def test_steps_other_than_the_accumulators_are_refused(contributions):
    acc = contributions(tf.float32, [1])
    acc.set_step(5)
    assert acc.contribute([1.0], 0, 4) == STALE
    assert acc.contribute([1.0], 0, 6) == AHEAD
    assert acc.contribute([1.0], 0, 2**63 - 1) == AHEAD
    assert acc.contribute([1.0], 0, 5) == ADDED
    assert (acc.count(), acc.step()) == (1, 5)


def test_only_stale_gradients_are_counted_as_dropped(contributions):
    acc = contributions(tf.float32, [1])
    acc.contribute([1.0], 0, 0)
    acc.contribute([1.0], 0, 0)
    acc.contribute([1.0], 1, 1)
    assert acc.dropped() == 0
    acc.contribute([1.0], 1, -1)
    acc.try_contribute([1.0], 1, -1)
    assert acc.dropped() == 2


def test_try_apply_is_true_only_for_added_gradients(contributions):
    acc = contributions(tf.float32, [1])
    acc.set_step(3)
    assert [acc.try_contribute([1.0], 7, step) for step in (2, 4, 3, 3)] == [
        False,
        False,
        True,
        False,
    ]
    assert acc.count() == 1


def test_every_outcome_is_true_as_a_condition():
    # If a success were 0, `if apply_contribution(...)` would read as if it had been refused.
    assert all(tf_condacc.ApplyOutcome)


def test_each_round_is_a_new_one_for_every_contributor(contributions):
    acc = contributions(tf.float32, [1], reduction_type="SUM")
    for step in range(3):
        for contributor in (0, 1, 2**63 - 1):
            assert acc.contribute([1.0], contributor, step) == ADDED
            assert acc.contribute([1.0], contributor, step) == DUPLICATE
        np.testing.assert_array_equal(acc.take(3), [3.0])


def test_setting_the_step_begins_no_round(contributions):
    acc = contributions(tf.float32, [1])
    acc.contribute([1.0], 3, 0)
    acc.set_step(8)
    assert acc.contribute([1.0], 3, 8) == DUPLICATE
    assert acc.contribute([1.0], 4, 8) == ADDED


def test_gradients_with_and_without_a_contributor_are_accumulated_together(contributions):
    acc = contributions(tf.float32, [1], reduction_type="SUM")
    acc.apply([1.0])
    assert acc.contribute([10.0], 0) == ADDED
    acc.apply([100.0], 9)
    assert acc.contribute([1000.0], 0) == DUPLICATE
    acc.apply([10000.0])
    assert acc.count() == 4
    np.testing.assert_array_equal(acc.take(4), [10111.0])


def test_the_mean_is_that_of_the_added_gradients(contributions):
    acc = contributions(tf.float32, [1])
    for contributor, value in ((0, 2.0), (0, 50.0), (1, 4.0), (1, 50.0)):
        acc.contribute([value], contributor)
    np.testing.assert_array_equal(acc.take(2), [3.0])


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


def test_of_two_pushes_at_once_one_is_added(ours):
    acc = ContributionEagerDriver(ours, tf.float32, [1000], reduction_type="SUM")
    for step in range(200):
        outcomes = in_threads(*[lambda: acc.contribute(np.ones([1000]), 3, step)] * 3)  # noqa: B023
        assert sorted(outcomes) == [ADDED, DUPLICATE, DUPLICATE]
        assert acc.count() == 1
        np.testing.assert_array_equal(acc.take(1), np.ones([1000]))


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


def test_workers_that_push_everything_twice_are_counted_once(ours):
    """The value of a gradient encodes its worker and its step, so sums are checked exactly."""
    workers, rounds = 4, 40
    acc = ContributionEagerDriver(ours, tf.float64, [1], reduction_type="SUM")

    def work(worker):
        added = []
        while (step := acc.step()) < rounds:
            for _ in range(2):
                if acc.contribute([float(8**worker * 1)], worker, step) == ADDED:
                    added.append(step)
        return added

    def lead():
        totals = []
        while (step := acc.step()) < rounds:
            taken, value = acc.take_round(workers, step)
            if taken:
                totals.append(float(value[0]))
        return totals

    leader = Background(lead)
    pushed = in_threads(*[lambda w=w: work(w) for w in (*range(workers), 0)])
    assert leader.result(90) == [float(sum(8**w for w in range(workers)))] * rounds
    assert sorted(step for added in pushed for step in added) == sorted([*range(rounds)] * workers)
