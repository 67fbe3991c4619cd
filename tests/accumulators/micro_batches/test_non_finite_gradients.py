"""Tests of `skip_non_finite` of GradientAccumulator without a strategy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import GradientAccumulator

v1 = tf.compat.v1
NOT_FINITE = [np.nan, np.inf, -np.inf]


@pytest.fixture
def variables() -> list[tf.Variable]:
    return [tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([4, 2]))]


@pytest.fixture
def accumulator(variables) -> GradientAccumulator:
    return GradientAccumulator(variables, 2, skip_non_finite=True)


@pytest.fixture(params=["eager", "function"])
def wrap(request):
    """Returns how methods are called: as they are, or in a function."""
    return tf.function if request.param == "function" else lambda method: method


def gradients(dense: float, sparse: float) -> list:
    """Returns gradients with the given last elements, and 1 elsewhere."""
    values = tf.constant([[1.0, 1.0], [1.0, sparse]])
    return [
        tf.constant([1.0, 1.0, dense]),
        tf.IndexedSlices(values, tf.constant([0, 2]), tf.constant([4, 2])),
    ]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_micro_batch_with_such_a_gradient_is_skipped_and_counted(accumulator, wrap, value):
    accumulate = wrap(accumulator.accumulate)
    assert int(accumulator.num_skipped()) == 0
    assert not accumulate(gradients(2.0, 2.0))
    assert not accumulate(gradients(value, 1.0))
    assert not accumulate(gradients(1.0, value))
    assert int(accumulator.num_accumulated()) == 1
    assert int(accumulator.num_skipped()) == 2
    assert accumulate(gradients(4.0, 4.0))
    assert accumulate(gradients(value, value))  # There are still enough gradients.
    dense, sparse = accumulator.take()
    assert dense.numpy().tolist() == [1.0, 1.0, 3.0]
    assert sparse.values.numpy().tolist() == [[1.0, 1.0], [1.0, 3.0]]
    assert int(accumulator.num_skipped()) == 3


def test_a_micro_batch_of_weight_0_is_not_looked_at(accumulator, wrap):
    accumulate = wrap(accumulator.accumulate)
    assert not accumulate(gradients(np.nan, 1.0), tf.constant(0.0))
    assert not accumulate(gradients(np.nan, 1.0), tf.constant(2.0))
    assert accumulate(gradients(4.0, 4.0), tf.constant(2.0))
    assert int(accumulator.num_skipped()) == 1
    assert accumulator.take()[0].numpy().tolist() == [1.0, 1.0, 4.0]


def test_update_is_made_when_enough_micro_batches_are_finite(variables, accumulator, wrap):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    apply = wrap(lambda each: accumulator.apply_gradients(optimizer, each))
    values = [1.0, np.nan, 3.0, np.inf, 1.0, 5.0]
    updated = [bool(apply(gradients(value, 1.0))) for value in values]
    assert updated == [False, False, True, False, False, True]
    assert variables[0].numpy().tolist() == [-2.0, -2.0, -5.0]


def test_update_after_a_skipped_micro_batch_is_that_of_the_others(variables, accumulator, wrap):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    for value in (1.0, 3.0):
        accumulator.accumulate(gradients(value, 1.0))
    assert wrap(lambda: accumulator.apply_gradients(optimizer, gradients(np.nan, 1.0)))()
    assert variables[0].numpy().tolist() == [-1.0, -1.0, -2.0]
    assert int(accumulator.num_skipped()) == 1


def test_gradients_whose_sum_overflows_are_not_skipped(accumulator):
    accumulator.accumulate([tf.fill([3], 3e38), gradients(0.0, 3e38)[1]])
    assert int(accumulator.num_accumulated()) == 1


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.complex64])
def test_gradients_of_other_types_are_skipped(dtype):
    accumulator = GradientAccumulator([tf.Variable(tf.zeros([2], dtype))], 2, skip_non_finite=True)
    bad = complex(0.0, np.nan) if dtype == tf.complex64 else np.inf
    for value in (1.0, bad):
        accumulator.accumulate([tf.constant(np.array([1.0, value]), dtype)])
    counts = accumulator.num_accumulated(), accumulator.num_skipped()
    assert [int(count) for count in counts] == [1, 1]


def test_weight_of_a_skipped_micro_batch_does_not_count(accumulator):
    for value, weight in [(1.0, 1.0), (np.nan, 100.0), (5.0, 3.0)]:
        accumulator.accumulate(gradients(value, 1.0), weight)
    assert accumulator.take()[0].numpy().tolist() == [1.0, 1.0, 4.0]


def test_reset_does_not_change_the_number_of_skipped_ones(accumulator):
    accumulator.accumulate(gradients(np.nan, 1.0))
    accumulator.accumulate(gradients(1.0, 1.0))
    accumulator.reset()
    assert [int(accumulator.num_accumulated()), int(accumulator.num_skipped())] == [0, 1]


def test_by_default_nothing_is_skipped_or_looked_at(variables, wrap):
    accumulator = GradientAccumulator(variables, 2)
    accumulate = wrap(accumulator.accumulate)
    for value in (np.nan, 1.0):
        accumulate(gradients(value, 1.0))
    assert np.isnan(accumulator.take()[0].numpy()).tolist() == [False, False, True]
    assert int(accumulator.num_skipped()) == 0
    graph = tf.function(accumulator.accumulate).get_concrete_function(gradients(1.0, 1.0)).graph
    looking = {"DebugNumericSummaryV2", "SelectV2", "IsFinite", "AddN"}
    assert not looking & {op.type for op in graph.get_operations()}


def test_gradients_are_skipped_in_a_session():
    with tf.Graph().as_default(), v1.Session() as session:
        accumulator = GradientAccumulator(
            [v1.get_variable("weights", [1], use_resource=True)], 1, skip_non_finite=True
        )
        value = v1.placeholder(tf.float32, [1])
        enough, skipped = accumulator.accumulate([value]), accumulator.num_skipped()
        assert not session.run(enough, {value: [np.inf]})
        assert session.run(skipped) == 1
        assert session.run(enough, {value: [1.0]})


def test_skipping_as_much_as_an_update_is_warned_about_once(caplog):
    variable = tf.Variable([1.0])
    accumulator = GradientAccumulator([variable], 3, name="mine", skip_non_finite=True)
    nan, one = tf.constant([float("nan")]), tf.constant([1.0])
    for gradient in (nan, nan, one, nan, nan):
        accumulator.accumulate([gradient])
    assert caplog.messages == []
    for _ in range(7):
        accumulator.accumulate([nan])
    (message,) = caplog.messages
    assert message.startswith("GradientAccumulator 'mine' has skipped 3 micro-batches, because")
