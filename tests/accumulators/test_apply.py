"""Tests of `apply_grad`: staleness, shapes, and an unchanged state after a failed apply."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource

InvalidArgument = tf.errors.InvalidArgumentError


@pytest.mark.parametrize("step", [6, 1000, 2**62, 2**63 - 1])
@every_kind
def test_gradient_from_the_future_is_accepted(impl, driver, step):
    acc = driver(impl)
    acc.set_step(5)
    acc.apply([3.0], step)
    assert acc.count() == 1


@pytest.mark.parametrize("step", [-1, -(2**63)])
@every_kind
def test_negative_local_step_is_stale_from_the_start(impl, driver, step):
    acc = driver(impl)
    acc.apply([1.0], step)
    assert acc.count() == 0


@every_kind
def test_stale_gradient_of_another_shape_than_the_constructors_is_dropped(impl, graph_driver):
    acc = graph_driver(impl, shape=[2])
    acc.set_step(1)
    acc.apply(np.ones([3, 4]), 0)
    assert acc.count() == 0


def test_gradient_unlike_the_constructors_shape_is_refused(impl, graph_driver):
    acc = graph_driver(impl, shape=[3, 2])
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[3,2\], got \[2,2\]"):
        acc.apply(np.ones([2, 2]))
    assert acc.count() == 0


@pytest.mark.parametrize("shape", [[2], [2, 3, 1], [3, 2], []])
def test_gradient_unlike_the_constructors_partial_shape_is_refused(impl, graph_driver, shape):
    acc = graph_driver(impl, shape=[None, 3])
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[\?,3\], got"):
        acc.apply(np.ones(shape))
    acc.apply(np.ones([5, 3]))
    assert acc.count() == 1


def test_first_gradient_pins_the_full_shape_until_the_take(impl, driver):
    acc = driver(impl)
    acc.apply(np.ones([2, 3]))
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[2,3\], got \[3,2\]"):
        acc.apply(np.ones([3, 2]))
    assert acc.count() == 1
    np.testing.assert_array_equal(acc.take(1), np.ones([2, 3]))
    acc.apply(np.full([4], 7.0), 1)
    np.testing.assert_array_equal(acc.take(1), np.full([4], 7.0))


def test_first_gradient_pins_the_open_dimensions_of_a_partial_shape(impl, driver):
    acc = driver(impl, shape=[None, 2])
    acc.apply(np.ones([3, 2]))
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[3,2\], got \[4,2\]"):
        acc.apply(np.ones([4, 2]))
    acc.apply(np.ones([3, 2]))
    acc.take(2)
    acc.apply(np.ones([4, 2]), 1)
    assert acc.take(1).shape == (4, 2)


def test_refusal_names_the_accumulator(ours, graph_driver):
    acc = graph_driver(ours, shape=[3], name="conv1_bias")
    with pytest.raises(InvalidArgument, match="conv1_bias"):
        acc.apply(np.ones([2]))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1, 0, 5), (1, 0, 2**31)])
@every_kind
def test_gradient_without_elements_counts(impl, driver, shape):
    acc = driver(impl)
    acc.apply(np.ones(shape))
    acc.apply(np.ones(shape))
    assert acc.count() == 2
    assert acc.take(2).shape == shape


def test_gradient_without_elements_pins_the_shape_too(impl, driver):
    acc = driver(impl)
    acc.apply(np.ones([0, 3]))
    with pytest.raises(InvalidArgument, match=r"Shape mismatch: expected \[0,3\], got \[0,2\]"):
        acc.apply(np.ones([0, 2]))


@every_kind
def test_high_rank_gradients_add_up(impl, driver):
    acc = driver(impl)
    shape = (1,) * 20 + (2, 3)
    acc.apply(np.full(shape, 2.0))
    acc.apply(np.full(shape, 4.0))
    np.testing.assert_array_equal(acc.take(2), np.full(shape, 3.0))


@every_kind
@needs_resource
def test_gradients_of_the_highest_rank_that_tensorflow_has_add_up(impl):
    acc = impl.dense(tf.float32, shared_name=f"rank_{impl.name}")
    for value in (1.0, 3.0):
        acc.apply_grad(tf.fill([1] * 253, value))
    taken = acc.take_grad(2)
    assert (taken.shape.rank, float(tf.squeeze(taken))) == (253, 2.0)
