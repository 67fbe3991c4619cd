"""Tests of results so large that they have a mapping of their own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.memory_limits import MEGABYTE, resident_bytes
from tests.processes.isolated import isolated

v1 = tf.compat.v1
WIDTH = 64
ROWS = 200_000  # 49 MB of values.
FAR = 2**40  # No gradient is stale.
ELEMENTS = 12 * MEGABYTE  # 48 MB.


@pytest.mark.kinds("sparse")
def test_a_large_sparse_result_is_right_and_may_be_overwritten(ours):
    """The sum can reuse the memory of the result, which nothing else refers to."""
    first, second = np.arange(ROWS), np.arange(ROWS) + ROWS // 4
    with tf.Graph().as_default(), v1.Session() as session:
        acc = ours.sparse(tf.float32)
        row = tf.range(WIDTH, dtype=tf.float32)
        applies = [
            acc.apply_grad(indices, tf.cast(indices, tf.float32)[:, None] + row, local_step=1)
            for indices in (first, second)
        ]
        indices, values, shape = acc.take_grad(2)
        for _ in range(2):
            session.run(applies)
            taken, plus_one, dense_shape = session.run([indices, values + 1.0, shape])
            np.testing.assert_array_equal(taken, np.arange(ROWS + ROWS // 4))
            expected = taken[:, None].astype(np.float32) + np.arange(WIDTH, dtype=np.float32)
            np.testing.assert_array_equal(plus_one, expected + np.float32(1.0))
            np.testing.assert_array_equal(dense_shape[1:], [WIDTH])


def test_a_large_dense_result_is_a_copy_of_what_was_borrowed(ours):
    variable = tf.Variable(tf.range(ELEMENTS, dtype=tf.float32))
    acc = ours.dense(tf.float32, reduction_type="SUM")
    acc.apply_grad(variable)
    variable.assign(tf.zeros([ELEMENTS]))
    taken = acc.take_grad(1)
    np.testing.assert_array_equal(taken, np.arange(ELEMENTS, dtype=np.float32))
    np.testing.assert_array_equal(variable, np.zeros([ELEMENTS]))


@pytest.mark.kinds("sparse")
@isolated({"MALLOC_MMAP_THRESHOLD_": "1000000", "TF_CONDACC_HOLD_BYTES": "0"})
def test_the_memory_of_a_large_result_goes_back_if_none_may_be_held(ours):
    acc = ours.sparse(tf.float32)
    # The indices repeat, so the gradient itself cannot be the result.
    indices = tf.concat([tf.range(ROWS, dtype=tf.int64), [0]], axis=0)
    for _ in range(2):
        acc.apply_grad(indices, tf.ones([ROWS + 1, WIDTH]), local_step=FAR)
        result = acc.take_grad(1)
        before = resident_bytes()
        del result
        acc.apply_grad(indices[:1], tf.ones([1, WIDTH]), local_step=FAR)
        assert before - resident_bytes() > ROWS * WIDTH * 4 - MEGABYTE
        acc.take_grad(1)


@pytest.mark.kinds("sparse")
@isolated({"MALLOC_MMAP_THRESHOLD_": "1000000"})
def test_the_memory_of_a_large_result_is_used_for_the_next(ours):
    acc = ours.sparse(tf.float32)
    indices = tf.concat([tf.range(ROWS, dtype=tf.int64), [0]], axis=0)
    peaks = []
    for _ in range(4):
        acc.apply_grad(indices, tf.ones([ROWS + 1, WIDTH]), local_step=FAR)
        result = acc.take_grad(1)
        peaks.append(resident_bytes())
        np.testing.assert_array_equal(result.values[1::997], np.float32(1))
        del result
    assert max(peaks[1:]) < peaks[0] + 4 * MEGABYTE
