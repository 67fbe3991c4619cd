"""Tests of `take_grad`: readiness, effects, values, and the forms of num_required."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource

v1 = tf.compat.v1
pytestmark = every_kind
InvalidArgument = tf.errors.InvalidArgumentError


@needs_resource
def test_returned_value_is_not_touched_by_later_applies(impl):
    acc = impl.dense(tf.float32, shared_name=f"untouched_{impl.name}")
    held = []
    for round_number in range(4):
        acc.apply_grad(tf.fill([10000], float(round_number)), round_number)
        acc.apply_grad(tf.fill([10000], float(round_number) + 2.0), round_number)
        held.append(acc.take_grad(2))
    for round_number, value in enumerate(held):
        np.testing.assert_array_equal(value, np.full([10000], round_number + 1.0))


@needs_resource
def test_applied_tensor_is_not_the_returned_one(impl):
    acc = impl.dense(tf.float32, shared_name=f"not_aliased_{impl.name}")
    gradient = tf.ones([10000])
    acc.apply_grad(gradient)
    taken = acc.take_grad(1)
    tf.raw_ops.InplaceAdd(x=taken, i=tf.constant([0]), v=tf.constant([5.0]))
    np.testing.assert_array_equal(gradient, np.ones([10000]))


def test_taken_value_can_be_consumed_in_place_and_twice(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        source = v1.placeholder(tf.float32, [1000])
        acc = impl.dense(tf.float32, [1000])
        with tf.control_dependencies([acc.apply_grad(source * 1.0, 10)]):
            taken = acc.take_grad(1)
        once, twice = tf.square(taken), taken * 3.0
        for value in (1.0, 2.0):
            result = session.run([once, twice], {source: np.full([1000], value)})
            np.testing.assert_array_equal(result[0], np.full([1000], value**2))
            np.testing.assert_array_equal(result[1], np.full([1000], value * 3.0))


@pytest.mark.parametrize("required", [0, -1, -(2**31)])
def test_num_required_below_one_is_refused_and_consumes_nothing(impl, driver, required):
    acc = driver(impl)
    acc.apply([3.0])
    message = f"must be positive, but was {required}"
    with pytest.raises(InvalidArgument, match=message):
        acc.take(required)
    assert acc.count() == 1
    np.testing.assert_array_equal(acc.take(1), [3.0])


@pytest.mark.parametrize("required", [0, -1])
def test_num_required_below_one_is_refused_at_once_while_nothing_is_there(impl, driver, required):
    acc = driver(impl)
    with pytest.raises(InvalidArgument, match="must be positive, but was"):
        acc.take(required)


def test_num_required_refusal_names_the_accumulator(ours, graph_driver):
    acc = graph_driver(ours, name="conv1_bias")
    with pytest.raises(InvalidArgument, match="conv1_bias"):
        acc.take(0)


@needs_resource
def test_num_required_beyond_int32_never_takes(impl):
    acc = impl.dense(tf.float32, [], shared_name=f"beyond_{impl.name}")
    acc.apply_grad(1.0)
    with pytest.raises((InvalidArgument, ValueError, OverflowError, TypeError)):
        acc.take_grad(2**31)
    assert int(acc.num_accumulated()) == 1


@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=needs_resource)])
@pytest.mark.parametrize("required", [1.0, np.int64(1), "one", None], ids=repr)
def test_num_required_that_is_no_int32_is_refused(impl, required, eager):
    graph = tf.Graph()
    with contextlib.nullcontext() if eager else graph.as_default():
        acc = impl.dense(tf.float32, [], shared_name=f"no_int32_{impl.name}")
        given = tf.constant(required) if isinstance(required, np.int64) else required
        with pytest.raises((TypeError, ValueError, InvalidArgument)):
            acc.take_grad(given)


def test_num_required_may_be_an_int32_tensor(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        session.run(acc.apply_grad(2.0))
        assert session.run(acc.take_grad(tf.constant(1))) == 2.0
        session.run(acc.apply_grad(3.0, 1))
        assert session.run(acc.take_grad(np.int32(1))) == 3.0


@pytest.mark.parametrize("required", [[1], [[1]], [1, 1]], ids=repr)
def test_num_required_that_is_statically_no_scalar_is_a_value_error(impl, required):
    with tf.Graph().as_default():
        acc = impl.dense(tf.float32, [])
        with pytest.raises(ValueError, match=r"must be rank 0 but is rank [12]"):
            acc.take_grad(required)


def test_stale_gradients_do_not_make_a_take_ready(impl, driver):
    acc = driver(impl)
    acc.set_step(1)
    waiting = acc.start_take(2)
    acc.apply([1.0], 1)
    acc.apply([5.0], 0)
    assert acc.count() == 1
    acc.apply([3.0], 1)
    np.testing.assert_array_equal(waiting.result(), [2.0])
