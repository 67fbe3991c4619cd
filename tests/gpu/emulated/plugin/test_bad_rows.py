"""Bad rows on the emulated GPU: an apply does not look at indices, and the take fails."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1
InvalidArgument = tf.errors.InvalidArgumentError
TAKE_TIMEOUT_SECS = 60
NUM_REQUIRED = 3


class Embedding:
    """A session with an accumulator of five rows; each gradient has rows with the same value."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.acc = tf_condacc.SparseConditionalAccumulator(
            tf.float32, shape=[5, 1], name="embedding"
        )
        self.rows = v1.placeholder(tf.int64, [None])
        self.value = v1.placeholder(tf.float32, [])
        self.step = v1.placeholder_with_default(tf.constant(0, tf.int64), [])
        values = tf.ones([tf.size(self.rows), 1]) * self.value
        # The indices are computed on the stream too, and may not be ready when the take comes.
        self.apply_op = self.acc.apply_grad(self.rows + 0, values, None, self.step)
        self.takes = [self.acc.take_indexed_slices_grad(n) for n in range(1, NUM_REQUIRED + 1)]
        self.count, self.reset_op = self.acc.num_accumulated(), self.acc.reset(0)

    def apply(self, rows: list[int], value: float = 1000.0, step: int = 0) -> None:
        feeds = {self.rows: rows, self.value: value, self.step: step}
        self.session.run(self.apply_op, feeds)

    def take(self, num_required: int) -> Any:
        return self.session.run(self.takes[num_required - 1])

    def num_accumulated(self) -> int:
        return self.session.run(self.count)


@pytest.fixture
def embedding() -> Iterator[Embedding]:
    with tf.Graph().as_default() as graph:
        with v1.Session(graph=graph) as session:
            yield Embedding(session)


def assert_taken(taken: Any, rows: list[int], values: list[float]) -> None:
    assert taken.indices.tolist() == rows
    np.testing.assert_array_equal(taken.values.ravel(), np.float32(values))


@pytest.mark.parametrize("row", [-3, 5])
def test_bad_row_fails_the_take_and_the_next_round_works(embedding: Any, row: int) -> None:
    embedding.apply([1, 2], 4.0)
    embedding.apply([1, row])
    embedding.apply([2, 4], 8.0)
    with pytest.raises(InvalidArgument, match=f"slice 1 .*index is {row}.*are lost.*'embedding"):
        embedding.take(3)
    assert embedding.num_accumulated() == 0
    embedding.apply([1, 2], 4.0, step=1)
    embedding.apply([2, 4], 8.0, step=1)
    assert_taken(embedding.take(2), [1, 2, 4], [4.0, 6.0, 8.0])


def test_bad_gradient_fails_the_take_that_waits(embedding: Any) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(embedding.take, 2)
        embedding.apply([9])
        embedding.apply([4], 2.0)
        with pytest.raises(InvalidArgument, match="index is 9 exceeded 5"):
            waiting.result(TAKE_TIMEOUT_SECS)
        waiting = pool.submit(embedding.take, 1)
        embedding.apply([4], 6.0, step=1)
        assert_taken(waiting.result(TAKE_TIMEOUT_SECS), [4], [6.0])


def test_reset_discards_bad_gradients_silently(embedding: Any) -> None:
    embedding.apply([9])
    embedding.apply([1], 2.0)
    assert embedding.session.run(embedding.reset_op) == 2
    embedding.apply([0], 6.0)
    assert_taken(embedding.take(1), [0], [6.0])
