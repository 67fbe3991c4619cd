"""Examples of what the calls in test_programs.py do not reach.

They are calls while a take waits, extreme steps, and shapes that are bound by the constructor or by
the first gradient.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.support.outcomes import ADDED, AHEAD, DUPLICATE, STALE
from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.waiting import Background

InvalidArgument = tf.errors.InvalidArgumentError
LAST = 2**63 - 1


@every_kind
def test_steps_of_any_size_are_compared(impl, driver):
    acc = driver(impl)
    for new_step, step, is_fresh in [
        (0, -1, False),
        (0, -LAST - 1, False),
        (5, 6, True),
        (5, LAST, True),
        (LAST, LAST - 1, False),
        (LAST, LAST, True),
        (-LAST - 1, -LAST - 1, True),
    ]:
        acc.set_step(new_step)
        before = acc.count()
        acc.apply([1.0], step)
        assert acc.count() == before + is_fresh, (new_step, step)


@every_kind
def test_a_take_at_the_largest_step_fails_instead_of_wrapping(ours, driver):
    acc = driver(ours)
    acc.set_step(LAST)
    waiting = acc.start_take(1)
    acc.apply([3.0], LAST)
    assert isinstance(waiting.error(), tf.errors.OutOfRangeError)
    for take in (acc.take, acc.try_take, lambda required: acc.take_round(required, LAST)):
        with pytest.raises(tf.errors.OutOfRangeError, match="step"):
            take(1)
        assert acc.state() == (1, LAST, 0)
    acc.set_step(8)
    np.testing.assert_array_equal(acc.take(1), [3.0])
    assert acc.step() == 9


@every_kind
def test_the_original_wraps_around_at_the_largest_step(original, driver):
    acc = driver(original)
    acc.set_step(LAST)
    acc.apply([1.0], LAST)
    acc.take(1)
    acc.apply([1.0], -LAST - 1)
    assert acc.count() == 1


# The shape of the constructor, that of a first gradient or None, a shape that is then refused, and
# the shape that it is compared with.
SHAPES = [
    ([3, 2], None, [2, 2], r"\[3,2\]"),
    ([None, 3], None, [2], r"\[\?,3\]"),
    ([None, 3], None, [2, 3, 1], r"\[\?,3\]"),
    ([None, 3], None, [3, 2], r"\[\?,3\]"),
    ([None, 3], None, [], r"\[\?,3\]"),
    ([None, 2], [3, 2], [4, 2], r"\[3,2\]"),
    (None, [2, 3], [3, 2], r"\[2,3\]"),
    (None, [0, 3], [0, 2], r"\[0,3\]"),
]


@pytest.mark.parametrize(("shape", "first", "other", "expected"), SHAPES, ids=str)
def test_a_first_gradient_binds_the_shape_until_the_take(
    impl, graph_driver, shape, first, other, expected
):
    acc = graph_driver(impl, shape=shape, name="conv1_bias")
    if first:
        acc.apply(np.ones(first))
    with pytest.raises(InvalidArgument, match=rf"Shape mismatch: expected {expected}, got") as info:
        acc.apply(np.ones(other))
    assert not impl.ours or "conv1_bias" in str(info.value)
    assert acc.count() == bool(first)
    acc.set_step(1)
    acc.apply(np.ones(other), 0)  # Nobody looks at a gradient that is stale.
    assert acc.count() == bool(first)
    if first:
        np.testing.assert_array_equal(acc.take(1), np.ones(first))
        acc.apply(np.ones(other), 2)
        assert acc.take(1).shape == tuple(other)


@every_kind
def test_a_stale_gradient_of_another_shape_than_the_constructors_is_dropped(impl, graph_driver):
    acc = graph_driver(impl, shape=[2])
    acc.set_step(1)
    acc.apply(np.ones([3, 4]), 0)
    assert acc.count() == 0


@every_kind
def test_gradients_of_any_shape_are_added(impl, driver):
    acc = driver(impl, reduction_type="SUM")
    shapes = [(0,), (0, 3), (3, 0), (1, 0, 5), (1, 0, 2**31), (1,) * 20 + (2, 3)]
    for step, shape in enumerate(shapes):
        for value in (2.0, 4.0):
            acc.apply(np.full(shape, value), step)
        assert acc.count() == 2
        np.testing.assert_array_equal(acc.take(2), np.full(shape, 6.0))


@every_kind
@needs_resource
def test_gradients_of_the_highest_rank_that_tensorflow_has_add_up(impl):
    acc = impl.dense(tf.float32, shared_name=unique_name())
    for value in (1.0, 3.0):
        acc.apply_grad(tf.fill([1] * 253, value))
    taken = acc.take_grad(2)
    assert (taken.shape.rank, float(tf.squeeze(taken))) == (253, 2.0)


@every_kind
def test_stale_gradients_do_not_make_a_take_ready(impl, driver):
    acc = driver(impl)
    waiting = acc.start_take(2)
    acc.apply([2.0])
    acc.set_step(5)
    acc.apply([9.0], 4)
    assert acc.count() == 1 and not waiting.done
    acc.apply([4.0], 5)
    np.testing.assert_array_equal(waiting.result(), [3.0])


@every_kind
def test_takes_that_do_not_wait_do_not_overtake_one_that_does(ours, driver):
    acc = driver(ours)
    waiting = acc.start_take(2)
    acc.apply([1.0])
    assert acc.try_take(1)[0] is False
    assert acc.take_round(1, 0)[0] is False
    assert acc.count() == 1
    assert acc.try_apply([3.0])
    np.testing.assert_array_equal(waiting.result(), [2.0])


@every_kind
def test_contributions_complete_a_waiting_take_and_duplicates_do_not(ours, driver):
    acc = driver(ours)
    waiting = acc.start_take(2)
    assert [acc.contribute([float(i)], 0) for i in (1, 2, 3)] == [ADDED, DUPLICATE, DUPLICATE]
    assert acc.contribute([3.0], 1) == ADDED
    np.testing.assert_array_equal(waiting.result(), [2.0])


@every_kind
def test_a_take_that_waits_during_a_reset_waits_on(ours, driver):
    acc = driver(ours)
    waiting = acc.start_take(3)
    acc.apply([1.0])
    acc.apply([1.0])
    assert acc.reset(6) == 2
    for value in (2.0, 4.0, 6.0):
        assert not waiting.done
        acc.apply([value], 6)
    np.testing.assert_array_equal(waiting.result(), [4.0])
    assert acc.step() == 7


@every_kind
def test_many_gradients_are_discarded_whatever_has_been_added_up(ours, driver):
    acc = driver(ours)
    for count in (1, 7, 8, 30):
        for _ in range(count):
            acc.apply(np.ones([1000]))
        assert acc.reset(0) == count
    acc.apply(np.full([1000], 2.0))
    np.testing.assert_array_equal(acc.take(1), np.full([1000], 2.0))


@every_kind
def test_after_an_error_the_contributor_may_come_again(ours, driver):
    acc = driver(ours, reduction_type="SUM")
    assert acc.contribute([10.0, 20.0], 3) == ADDED
    with pytest.raises(InvalidArgument, match="hape"):
        acc.contribute(np.ones([2, 2]), 4)
    assert acc.contribute([1.0, 2.0], 4) == ADDED
    assert acc.contribute(np.ones([2, 2]), 4) == DUPLICATE, "a duplicate is not looked at"
    assert acc.contribute(np.ones([2, 2]), 5, -1) == STALE
    assert acc.contribute(np.ones([2, 2]), 5, 1) == AHEAD
    np.testing.assert_array_equal(acc.take(2), [11.0, 22.0])


def test_the_outcomes_are_public_numbers_and_none_is_0():
    outcomes = {each.name: int(each) for each in tf_condacc.ApplyOutcome}
    expected = {"ADDED": ADDED, "STALE": STALE, "DUPLICATE": DUPLICATE, "AHEAD": AHEAD}
    assert outcomes == expected and all(tf_condacc.ApplyOutcome)


@every_kind
def test_objects_that_share_an_accumulator_share_its_contributors_and_counters(ours):
    name = unique_name("shared")
    first, second = (ours.dense(tf.float32, [], shared_name=name) for _ in range(2))
    assert int(first.apply_contribution(1.0, 2)) == ADDED
    assert int(second.apply_contribution(1.0, 2)) == DUPLICATE
    assert int(second.apply_contribution(1.0, 3)) == ADDED
    first.apply_grad(1.0, -1)
    first.set_global_step(4)
    counters = second.num_accumulated(), second.num_dropped(), second.global_step()
    assert [int(each) for each in counters] == [2, 1, 4]


@every_kind
def test_a_function_orders_its_calls(ours):
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


@every_kind
def test_applying_and_trying_to_take_in_one_function_does_not_hang(ours):
    acc = ours.dense(tf.float32, [])

    @tf.function
    def step(number):
        taken, value = acc.try_take_grad(2)
        acc.apply_grad(1.0, number)
        return taken, value

    outcomes = Background(lambda: [bool(step(tf.constant(i))[0]) for i in (5, 5, 5, 6, 6, 6)])
    assert outcomes.result() == [False, False, True, False, True, False]
