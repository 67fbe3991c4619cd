"""Bad rows on the emulated GPU: an apply does not look at indices, and the take refuses them."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1


@pytest.mark.parametrize("row", [-3, 5])
def test_bad_row_fails_the_take_of_its_round_and_the_next_round_works(row: int) -> None:
    with tf.Graph().as_default() as graph:
        acc = tf_condacc.SparseConditionalAccumulator(tf.float32, shape=[5, 1], name="embedding")
        rows, value = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [])
        step = v1.placeholder(tf.int64, [])
        values = tf.ones([tf.size(rows), 1]) * value
        # The indices are computed on the stream too, and may not be ready when the take comes.
        apply = acc.apply_grad(rows + 0, values, None, step)
        takes, count = [acc.take_indexed_slices_grad(n) for n in (3, 2)], acc.num_accumulated()
        with v1.Session(graph=graph) as session:
            for indices, number in (([1, 2], 4.0), ([1, row], 1000.0), ([2, 4], 8.0)):
                session.run(apply, {rows: indices, value: number, step: 0})
            words = f"slice 1 .*index is {row}.*are lost.*'embedding"
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                session.run(takes[0])
            assert session.run(count) == 0
            for indices, number in (([1, 2], 4.0), ([2, 4], 8.0)):
                session.run(apply, {rows: indices, value: number, step: 1})
            taken = session.run(takes[1])
    assert taken.indices.tolist() == [1, 2, 4]
    assert taken.values.ravel().tolist() == [4.0, 6.0, 8.0]
