"""Tests of methods that only our class has: try_apply_grad, try_take_grad and the counters."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind
InvalidArgument = tf.errors.InvalidArgumentError


def test_try_apply_has_the_default_local_step_zero(ours):
    acc = ours.dense(tf.float32, [])
    assert acc.try_apply_grad(1.0).numpy()
    acc.take_grad(1)
    assert not acc.try_apply_grad(1.0).numpy()


@pytest.mark.kinds("dense")
def test_try_apply_refuses_what_apply_refuses(ours, graph_driver):
    acc = graph_driver(ours, shape=[2])
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[2\], got \[3\]"):
        acc.try_apply([1.0, 2.0, 3.0])
    assert (acc.count(), acc.dropped()) == (0, 0)
    with acc.graph.as_default():
        with pytest.raises(ValueError, match="are incompatible"):
            acc.accumulator.try_apply_grad(tf.ones([3]))
        with pytest.raises(ValueError, match="Tensor conversion requested dtype"):
            acc.accumulator.try_apply_grad(tf.ones([2], tf.float64))


def test_try_apply_completes_a_waiting_take(ours, driver):
    acc = driver(ours)
    waiting = acc.start_take(2)
    assert acc.try_apply([1.0]) and acc.try_apply([3.0])
    np.testing.assert_array_equal(waiting.result(), [2.0])


def test_try_take_that_took_nothing_returns_a_value_of_the_right_dtype(ours, driver):
    acc = driver(ours, tf.float64, shape=[3])
    assert acc.try_take(1)[1].dtype == np.float64


def test_try_take_does_not_overtake_a_waiting_take(ours, driver):
    acc = driver(ours)
    waiting = acc.start_take(2)
    acc.apply([1.0])
    assert acc.try_take(1)[0] is False, "takes are served first come first served"
    assert acc.count() == 1
    acc.apply([3.0])
    np.testing.assert_array_equal(waiting.result(), [2.0])


@pytest.mark.parametrize("required", [0, -1])
def test_try_take_refuses_a_number_below_one(ours, driver, required):
    acc = driver(ours)
    acc.apply([1.0])
    with pytest.raises(InvalidArgument, match=f"must be positive, but was {required}"):
        acc.try_take(required)
    assert acc.count() == 1


def test_try_take_refuses_to_wrap_the_step(ours, driver):
    acc = driver(ours)
    acc.set_step(2**63 - 1)
    acc.apply([1.0], 2**63 - 1)
    with pytest.raises(tf.errors.OpError):
        acc.try_take(1)
    assert (acc.count(), acc.step()) == (1, 2**63 - 1)


def test_applying_and_trying_to_take_in_one_function_does_not_hang(ours):
    acc = ours.dense(tf.float32, [])

    @tf.function
    def step(number):
        taken, value = acc.try_take_grad(2)
        acc.apply_grad(1.0, number)
        return taken, value

    outcomes = Background(lambda: [bool(step(tf.constant(i))[0]) for i in (5, 5, 5, 6, 6, 6)])
    assert outcomes.result() == [False, False, True, False, True, False]


def test_counters_are_shared_with_the_accumulator(ours):
    name = unique_name("counters")
    first = ours.dense(tf.float32, [], shared_name=name)
    second = ours.dense(tf.float32, [], shared_name=name)
    first.apply_grad(1.0, -1)
    first.set_global_step(4)
    assert int(second.num_dropped()) == 1
    assert int(second.global_step()) == 4


@pytest.mark.kinds("dense")
def test_build_info_tells_what_the_library_was_built_for(ours):
    info = ours.module.build_info()
    assert info["tensorflow"] == tf.__version__
    assert info["version"] == ours.module.__version__
