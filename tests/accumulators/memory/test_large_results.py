"""Tests of results so large that they have a mapping of their own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.memory import MEGABYTE, memory
from tests.support.waiting import until

v1 = tf.compat.v1
WIDTH = 64
ROWS = 200_000  # 49 MB of values.
FAR = 2**40  # No gradient is stale.
ELEMENTS = 12 * MEGABYTE  # 48 MB.
_ON_CPU = "results on a GPU have no pages of the system"


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
@isolated({"TF_CONDACC_HOLD_BYTES": "0"})
def test_the_memory_of_a_large_result_goes_back_if_none_may_be_held(ours):
    skip_on_gpu(_ON_CPU)
    acc = ours.sparse(tf.float32)
    # The indices repeat, so the gradient itself cannot be the result.
    indices = tf.concat([tf.range(ROWS, dtype=tf.int64), [0]], axis=0)
    before = memory().held
    for _ in range(2):
        acc.apply_grad(indices, tf.ones([ROWS + 1, WIDTH]), local_step=FAR)
        result = acc.take_grad(1)
        assert memory().held >= before + ROWS * WIDTH * 4
        del result
        assert memory().held == before
        acc.apply_grad(indices[:1], tf.ones([1, WIDTH]), local_step=FAR)
        assert memory().pooled == 0, "pages for the next result"
        acc.take_grad(1)


@pytest.mark.kinds("sparse")
@isolated()
def test_the_memory_of_a_large_result_is_used_for_the_next(ours):
    skip_on_gpu(_ON_CPU)
    acc = ours.sparse(tf.float32)
    indices = tf.concat([tf.range(ROWS, dtype=tf.int64), [0]], axis=0)
    taken = []
    for _ in range(4):
        acc.apply_grad(indices, tf.ones([ROWS + 1, WIDTH]), local_step=FAR)
        result = acc.take_grad(1)
        taken.append(memory())
        np.testing.assert_array_equal(result.values[1::997], np.float32(1))
        del result
    in_all = [each.held + each.pooled for each in taken]
    assert in_all == [in_all[0]] * 4
    until(lambda: memory().pooled == 0, "pages that no accumulator uses return to the system")
