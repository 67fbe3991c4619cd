"""Tests of the clipping of mean gradients without a strategy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import GradientAccumulator

v1 = tf.compat.v1
ROWS = 4


def slices(*rows: int, value: float) -> tf.IndexedSlices:
    values = tf.fill([len(rows), 2], tf.constant(value))
    return tf.IndexedSlices(values, tf.constant(rows), tf.constant([ROWS, 2]))


@pytest.fixture
def variables() -> list[tf.Variable]:
    return [tf.Variable(tf.zeros([2]), name="kernel"), tf.Variable(tf.zeros([ROWS, 2]))]


def step_of(variables: list[tf.Variable], **clipping) -> list[np.ndarray]:
    """Returns the step of an update from two micro-batches.

    The mean gradients are [3, 4], whose norm is 5, and rows 1 and 3 of [6, 6] and [2, 2], of norm
    sqrt(80).
    """
    accumulator = GradientAccumulator(variables, 2)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    apply = tf.function(lambda each: accumulator.apply_gradients(optimizer, each, **clipping))
    apply([tf.constant([2.0, 8.0]), slices(1, 1, value=4.0)])
    assert apply([tf.constant([4.0, 0.0]), slices(3, 1, value=4.0)])
    return [-variable.numpy() for variable in variables]


def test_norm_of_each_mean_gradient_is_clipped(variables):
    dense, rows = step_of(variables, clipnorm=2.5)
    np.testing.assert_allclose(dense, [1.5, 2.0], rtol=1e-6)
    np.testing.assert_allclose(rows[:, 0], np.array([0, 6, 0, 2]) * 2.5 / np.sqrt(80), rtol=1e-6)


def test_norm_of_all_mean_gradients_is_clipped(variables):
    dense, rows = step_of(variables, global_clipnorm=2.5)
    factor = 2.5 / np.sqrt(105)
    np.testing.assert_allclose(dense, np.array([3.0, 4.0]) * factor, rtol=1e-6)
    np.testing.assert_allclose(rows[:, 1], np.array([0, 6, 0, 2]) * factor, rtol=1e-6)


def test_elements_of_mean_gradients_are_clipped(variables):
    dense, rows = step_of(variables, clipvalue=3.5)
    assert dense.tolist() == [3.0, 3.5]
    assert rows[:, 0].tolist() == [0.0, 3.5, 0.0, 2.0]


@pytest.mark.parametrize("kind", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_gradients_below_the_limit_do_not_change(variables, kind):
    dense, rows = step_of(variables, **{kind: 100.0})
    assert dense.tolist() == [3.0, 4.0]
    assert rows[:, 0].tolist() == [0.0, 6.0, 0.0, 2.0]


def test_norm_of_a_half_precision_gradient_does_not_overflow():
    weights = tf.Variable(tf.zeros([2], tf.float16))
    accumulator = GradientAccumulator([weights], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    gradient = tf.constant([300.0, 400.0], tf.float16)  # The squares exceed float16's maximum.
    accumulator.apply_gradients(optimizer, [gradient], clipnorm=5)
    assert weights.numpy().tolist() == [-3.0, -4.0]


def test_gradient_that_is_not_finite_stays_so(variables):
    accumulator = GradientAccumulator(variables[:1], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    accumulator.apply_gradients(optimizer, [tf.constant([np.inf, 1.0])], clipnorm=1.0)
    assert np.isnan(variables[0].numpy()).all()


@pytest.mark.parametrize(
    "limits, error, message",
    [
        (
            {"clipnorm": 1.0, "clipvalue": 2.0},
            ValueError,
            "at most one of clipnorm, global_clipnorm, clipvalue, .* got clipnorm and clipval",
        ),
        ({"clipnorm": [1.0]}, ValueError, r"a clipnorm that is a number above 0, got shape \(1"),
        ({"global_clipnorm": "1"}, TypeError, "a global_clipnorm .* got dtype string"),
        ({"clipvalue": -1.0}, tf.errors.InvalidArgumentError, "a clipvalue .* above 0, got -1.0"),
        ({"clipnorm": 0}, tf.errors.InvalidArgumentError, "a clipnorm .* above 0, got 0"),
        ({"clipnorm": np.nan}, tf.errors.InvalidArgumentError, "above 0, got nan"),
        ({"clip_norm": 1.0}, TypeError, "expects the argument clipnorm, got clip_norm"),
        ({"global_clip_norm": 1.0}, TypeError, "expects the argument global_clipnorm, got global_"),
        ({"clip_value": 1.0}, TypeError, "expects the argument clipvalue, got clip_value"),
    ],
)
def test_wrong_limits_are_refused_and_nothing_is_accumulated(variables, limits, error, message):
    accumulator = GradientAccumulator(variables[:1], 2)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(error, match=message) as raised:
        accumulator.apply_gradients(optimizer, [tf.ones([2])], **limits)
    assert "GradientAccumulator 'gradient_accumulator'" in str(raised.value)
    assert int(accumulator.num_accumulated()) == 0


@pytest.mark.parametrize("kind", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_limit_that_is_a_python_number_is_not_rounded(kind):
    weights = tf.Variable([0.0], dtype=tf.float64)
    accumulator = GradientAccumulator([weights], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    accumulator.apply_gradients(optimizer, [tf.constant([4.0], tf.float64)], **{kind: 0.1})
    assert weights.numpy() == [-0.1]


def test_limit_may_be_a_tensor_that_changes(variables):
    accumulator = GradientAccumulator(variables[:1], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    apply = tf.function(
        lambda limit: accumulator.apply_gradients(
            optimizer, [tf.constant([3.0, 4.0])], clipnorm=limit
        ),
        input_signature=[tf.TensorSpec([])],
    )
    for limit in (2.5, 10.0):
        apply(limit)
    np.testing.assert_allclose(variables[0], [-4.5, -6.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="a clipnorm that is a number above"):
        apply(-1.0)
    np.testing.assert_allclose(variables[0], [-4.5, -6.0])


@pytest.mark.parametrize("kind", ["clipnorm", "global_clipnorm"])
def test_complex_gradients_are_clipped_by_their_norm(kind):
    variable = tf.Variable(tf.zeros([2], tf.complex64))
    accumulator = GradientAccumulator([variable], num_micro_batches=1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    gradient = tf.constant([3.0 + 0.0j, 0.0 + 4.0j], tf.complex64)
    accumulator.apply_gradients(optimizer, [gradient], **{kind: 2.5})
    np.testing.assert_allclose(variable.numpy(), [-1.5, -2.0j], rtol=1e-6)


def test_complex_gradients_are_not_clipped_by_value():
    accumulator = GradientAccumulator([tf.Variable(tf.zeros([2], tf.complex64))], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(ValueError, match="is complex.* Use clipnorm or global_clipnorm"):
        gradient = tf.zeros([2], tf.complex64)
        accumulator.apply_gradients(optimizer, [gradient], clipvalue=1.0)
    assert int(accumulator.num_accumulated()) == 0
