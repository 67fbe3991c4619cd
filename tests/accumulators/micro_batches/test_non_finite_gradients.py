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
def test_micro_batch_with_such_a_gradient_is_skipped_and_counted(accumulator, value):
    accumulate = accumulator.accumulate
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
