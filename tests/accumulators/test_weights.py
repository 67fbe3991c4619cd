"""Tests of gradients with weights."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc


def _dense(**options):
    options.setdefault("dtype", tf.float32)
    return tf_condacc.ConditionalAccumulator(shape=[2], **options)


def _sparse(reduction_type):
    return tf_condacc.SparseConditionalAccumulator(
        tf.float32, shape=[9, 1], reduction_type=reduction_type
    )


def _slices(rows):
    return tf.IndexedSlices(tf.constant([[value] for _, value in rows]), [i for i, _ in rows])


def _taken(accumulator, num_required):
    taken = accumulator.take_indexed_slices_grad(num_required)
    return dict(zip(taken.indices.numpy().tolist(), taken.values.numpy()[:, 0], strict=True))


def test_a_gradient_of_weight_0_counts_but_adds_nothing():
    accumulator = _dense()
    accumulator.try_apply_grad([np.inf, np.nan], weight=0)
    assert accumulator.num_accumulated() == 1
    accumulator.try_apply_grad([1.0, 2.0], weight=2)
    np.testing.assert_array_equal(accumulator.take_grad(2), [1.0, 2.0])


def test_a_gradient_behind_many_without_weight_and_rows_is_taken():
    """The accumulator adds 1,024 gradients up before the last one comes."""
    accumulator = _sparse("SUM")
    empty = tf.zeros([0], tf.int64), tf.zeros([0, 1])
    for _ in range(1024):
        accumulator.try_apply_grad(*empty, weight=0.0)
    accumulator.apply_grad(tf.constant([2, 5, 6]), tf.constant([[1.0], [2.0], [3.0]]))
    assert _taken(accumulator, 1025) == {2: 1.0, 5: 2.0, 6: 3.0}


@pytest.mark.weighted_means("[MEAN")
@pytest.mark.parametrize(
    "reduction_type, expected",
    [
        ("MEAN", {0: 2.5, 1: 2.0, 2: 16.0}),  # Row 1 is in the first gradient only.
        ("GLOBAL_MEAN", {0: 2.5, 1: 0.5, 2: 12.0}),
        ("SUM", {0: 10.0, 1: 2.0, 2: 48.0}),
    ],
)
def test_rows_are_divided_by_the_weights_of_their_gradients_or_of_all(reduction_type, expected):
    accumulator = _sparse(reduction_type)
    accumulator.try_apply_indexed_slices_grad(_slices([(0, 4.0), (1, 2.0)]), weight=1)
    # Row 2 occurs twice, and counts as one gradient.
    rows = _slices([(2, 6.0), (0, 2.0), (2, 10.0)])
    accumulator.try_apply_grad(rows.indices, rows.values, weight=3)
    assert _taken(accumulator, 2) == expected
