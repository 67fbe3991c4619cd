"""Tests of contributions of sparse gradients, and of takes of a round, as rows and as slices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.contribution_drivers import ADDED, DUPLICATE
from tests.accumulators.support.rows import assert_rows

pytestmark = pytest.mark.kinds("sparse")
InvalidArgument = tf.errors.InvalidArgumentError


def slices(indices, values, shape=None):
    return tf.IndexedSlices(
        tf.constant(values, tf.float32),
        tf.constant(indices, tf.int64),
        dense_shape=None if shape is None else tf.constant(shape, tf.int64),
    )


def push_three(acc):
    """Pushes the gradients {3: 4} and {3: 8, 5: 2}, and a duplicate."""
    outcomes = [
        acc.apply_contribution([3], [[4.0]], 0),
        acc.apply_indexed_slices_contribution(slices([5, 3], [[2.0], [8.0]]), 1),
        acc.apply_contribution([6], [[100.0]], 1),
    ]
    assert [int(outcome) for outcome in outcomes] == [ADDED, ADDED, DUPLICATE]


def test_slices_of_a_round(ours):
    acc = ours.sparse(tf.float32, [9, 1], reduction_type="SUM")
    push_three(acc)
    taken, value = acc.try_take_indexed_slices_grad(1, global_step=5)
    assert not taken and value.indices.shape == [0]
    taken, value = acc.try_take_indexed_slices_grad(2, global_step=0)
    assert taken and isinstance(value, tf.IndexedSlices)
    np.testing.assert_array_equal(value.indices, [3, 5])
    np.testing.assert_array_equal(value.values, [[12.0], [2.0]])
    np.testing.assert_array_equal(value.dense_shape, [9, 1])


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (([9], [[1.0]]), "index is 9 exceeded 9"),
        (([-1], [[1.0]]), "negative"),
        (([1, 2], [[1.0]]), "Expected 2 non-empty input values, got 1"),
        (([1], [[1.0, 2.0]]), "Shape mismatch"),
        (([[1]], [[1.0]]), "vector|rank|dimension"),
    ],
    ids=["too high", "negative", "too few values", "too wide", "no vector"],
)
def test_rows_that_do_not_fit_are_refused_and_leave_the_contributor_free(ours, gradient, message):
    acc = ours.sparse(tf.float32, [9, 1])
    with pytest.raises(InvalidArgument, match=message):
        acc.apply_contribution(*gradient, 3)
    assert int(acc.num_accumulated()) == 0
    assert int(acc.apply_contribution([1], [[1.0]], 3)) == ADDED
    assert int(acc.apply_contribution(*gradient, 3)) == DUPLICATE


def test_a_shape_that_does_not_fit_is_refused(ours):
    acc = ours.sparse(tf.float32, [9, 1])
    with pytest.raises(InvalidArgument, match="hape"):
        acc.apply_contribution([1], [[1.0]], 3, grad_shape=[8, 1])
    assert int(acc.apply_contribution([1], [[1.0]], 3, grad_shape=[9, 1])) == ADDED


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.int16])
def test_row_numbers_of_every_type(ours, dtype):
    acc = ours.sparse(tf.float32, [9, 1])
    assert int(acc.apply_contribution(tf.constant([1], dtype), [[1.0]], 0)) == ADDED
    assert_rows(acc.take_grad(1), [1], [[1.0]])


def test_a_reset_frees_what_was_merged(ours):
    acc = ours.sparse(tf.float32, [1000, 8], reduction_type="SUM")
    for i in range(50):
        acc.apply_grad(tf.range(i, i + 100), tf.ones([100, 8]), None, 1)
    assert int(acc.reset(1)) == 50
    acc.apply_grad([7], tf.ones([1, 8]), None, 1)
    assert_rows(acc.take_grad(1), [7], np.ones([1, 8]))
