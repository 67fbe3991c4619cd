"""Tests of `set_global_step`: the state that it changes and the state that it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name

v1 = tf.compat.v1
pytestmark = every_kind


def accepts(acc, step) -> bool:
    """Returns whether a gradient computed at `step` is accepted now."""
    before = acc.count()
    acc.apply([1.0], step)
    return acc.count() == before + 1


def test_extreme_steps_are_set(impl, driver):
    acc = driver(impl)
    acc.set_step(2**63 - 1)
    assert not accepts(acc, 2**63 - 2)
    assert accepts(acc, 2**63 - 1)
    acc.set_step(-(2**63))
    assert accepts(acc, -(2**63))


def test_waiting_takes_are_left_alone(impl, driver):
    acc = driver(impl)
    waiting = acc.start_take(2)
    acc.apply([2.0])
    acc.set_step(5)
    assert acc.count() == 1 and not waiting.done
    acc.apply([9.0], 4)
    assert acc.count() == 1 and not waiting.done
    acc.apply([4.0], 5)
    np.testing.assert_array_equal(waiting.result(), [3.0])


def test_original_wraps_around_at_the_largest_step(original, driver):
    acc = driver(original)
    acc.set_step(2**63 - 1)
    acc.apply([1.0], 2**63 - 1)
    acc.take(1)
    assert accepts(acc, -(2**63))


@pytest.mark.parametrize("step", [1.0, 1, np.int32(1), np.float64(1.2), np.uint16(1)], ids=repr)
@needs_resource
def test_new_step_is_cast_to_int64(impl, step):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    acc.set_global_step(step)
    acc.apply_grad(1.0, 0)
    assert int(acc.num_accumulated()) == 0
    acc.apply_grad(1.0, 1)
    assert int(acc.num_accumulated()) == 1


def test_new_step_may_be_a_variable(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        variable = v1.train.get_or_create_global_step()
        set_step = acc.set_global_step(variable)
        session.run([variable.initializer])
        session.run(variable.assign_add(3))
        session.run(set_step)
        session.run([acc.apply_grad(1.0, 2), acc.apply_grad(1.0, 3)])
        assert session.run(acc.num_accumulated()) == 1


@needs_resource
def test_new_step_none_is_a_value_error(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    with pytest.raises(ValueError, match="None"):
        acc.set_global_step(None)


@pytest.mark.parametrize("step", [[1], [[1]], [1, 2], []], ids=repr)
def test_new_step_that_is_statically_no_scalar_is_a_value_error(impl, step):
    with tf.Graph().as_default():
        acc = impl.dense(tf.float32, [])
        with pytest.raises(ValueError, match=r"must be rank 0 but is rank [12]"):
            acc.set_global_step(np.array(step, np.int64))


def test_take_at_the_largest_step_is_an_error_instead_of_wrapping(ours, driver):
    acc = driver(ours)
    acc.set_step(2**63 - 1)
    acc.apply([3.0], 2**63 - 1)
    with pytest.raises(tf.errors.OpError, match="step"):
        acc.take(1)
    assert (acc.step(), acc.count()) == (2**63 - 1, 1)
    acc.set_step(8)
    np.testing.assert_array_equal(acc.take(1), [3.0])
    assert acc.step() == 9


def test_waiting_take_at_the_largest_step_ends_with_the_error(ours, driver):
    acc = driver(ours)
    acc.set_step(2**63 - 1)
    waiting = acc.start_take(1)
    acc.apply([3.0], 2**63 - 1)
    assert isinstance(waiting.error(), tf.errors.OpError)
    assert (acc.step(), acc.count()) == (2**63 - 1, 1)
