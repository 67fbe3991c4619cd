"""Tests of allocations that are refused; the accumulator must keep its state.

The process may have little more memory than it has already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.memory_limits import (
    MEGABYTE,
    accepted_or_exhausted,
    assert_all_equal,
    little_memory,
    num_accepted_later,
    state,
    take_that_waits,
    warm_up,
)
from tests.processes.isolated import isolated
from tests.support.waiting import Background

pytestmark = isolated()
ELEMENTS = 64 * MEGABYTE  # A dense gradient has 256 MB of float32.
WIDTH = 64
ROWS = MEGABYTE  # A sparse gradient has 256 MB of float32 values and 8 MB of row numbers.


def dense(impl: Any, dtype: tf.DType = tf.float32, reduction: str = "SUM") -> Any:
    return warm_up(impl.dense(dtype, reduction_type=reduction), 4, tf.ones([10], dtype))


def values(dtype: tf.DType = tf.float32, elements: int = ELEMENTS) -> tf.Tensor:
    return tf.fill([elements], tf.constant(3.0, dtype))


class TestDense:
    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
    def test_first_apply_leaves_nothing(self, ours, dtype):
        acc, first = dense(ours, dtype), values(dtype)
        with little_memory():
            accepted = accepted_or_exhausted(acc.apply_grad, first)
        if dtype == tf.float32:
            assert not accepted, "an eager tensor has to be copied, and there was no memory for it"
        assert state(acc) == (int(accepted), 0, 0)
        acc.apply_grad(first)
        assert state(acc) == (accepted + 1, 0, 0)
        assert_all_equal(acc.take_grad(1), 6.0 if accepted else 3.0)

    def test_later_applies_leave_what_was_there(self, ours):
        acc, later = dense(ours), values()
        accepted = num_accepted_later(acc, (later,), attempts=6)
        acc.apply_grad(later)
        assert state(acc) == (accepted + 1, 0, 0)
        assert_all_equal(acc.take_grad(accepted + 1), 3.0 * (accepted + 1))

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
    @pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
    def test_take_leaves_the_gradients(self, ours, dtype, reduction):
        acc = dense(ours, dtype, reduction)
        for _ in range(2):
            acc.apply_grad(values(dtype, ELEMENTS * 4 // dtype.size))
        value = None
        with little_memory():
            try:
                value = acc.take_grad(2)
            except tf.errors.ResourceExhaustedError:
                assert state(acc) == (2, 0, 0)
        if value is None:
            value = acc.take_grad(2)
        assert_all_equal(value, 6.0 if reduction == "SUM" else 3.0)
        assert state(acc) == (0, 1, 0)

    def test_apply_that_completes_a_waiting_take_loses_nothing(self, ours):
        assert_all_equal(take_that_waits(dense(ours), (values(),)), 6.0)


def sparse(impl: Any, dtype: Any = tf.float32, reduction: str = "SUM") -> Any:
    acc = impl.sparse(dtype, reduction_type=reduction)
    return warm_up(acc, 12, tf.constant([3, 1, 3]), tf.ones([3, WIDTH], dtype))


def rows_of(value: float, first_row: int = 0, rows: int = ROWS, dtype: Any = tf.float32) -> tuple:
    return tf.range(first_row, first_row + rows, dtype=tf.int64), tf.cast(
        tf.fill([rows, WIDTH], value), dtype
    )


def assert_taken(taken: Any, rows: int, value: float) -> None:
    np.testing.assert_array_equal(taken.indices, np.arange(rows))
    assert_all_equal(taken.values, value)


def assert_taken_one_row(taken: Any) -> None:
    np.testing.assert_array_equal(taken.indices, [1])
    np.testing.assert_array_equal(taken.values, np.ones([1, WIDTH]))


@pytest.mark.kinds("sparse")
class TestSparse:
    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
    def test_first_apply_leaves_nothing(self, ours, dtype):
        acc = sparse(ours, dtype)
        parts = rows_of(3.0, rows=ROWS * 4 // dtype.size, dtype=dtype)
        with little_memory():
            accepted = accepted_or_exhausted(acc.apply_grad, *parts)
        assert not accepted, "an eager tensor has to be copied, and there was no memory for it"
        assert state(acc) == (0, 0, 0)
        acc.apply_grad(*parts)
        assert_taken(acc.take_grad(1), len(parts[0]), 3.0)

    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
    def test_apply_of_very_many_rows_without_elements_leaves_nothing(self, ours, dtype):
        """There is too little memory for the row numbers alone."""
        acc = sparse(ours)
        rows = tf.range(32 * MEGABYTE, dtype=dtype)
        values = tf.ones([32 * MEGABYTE, 0])
        with little_memory():
            accepted = accepted_or_exhausted(acc.apply_grad, rows, values)
        assert not accepted
        assert state(acc) == (0, 0, 0)
        acc.apply_grad([1], tf.ones([1, WIDTH]))
        assert_taken_one_row(acc.take_grad(1))

    def test_later_applies_leave_what_was_there(self, ours):
        acc, parts = sparse(ours), rows_of(3.0)
        accepted = num_accepted_later(acc, parts, attempts=5)
        assert accepted < 6, "some must have been refused"
        acc.apply_grad(*parts)
        assert_taken(acc.take_grad(accepted + 1), ROWS, 3.0 * (accepted + 1))

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
    def test_fold_leaves_what_was_there(self, ours, dtype):
        """Small gradients cause a merge of the large ones that are accumulated."""
        acc = sparse(ours, dtype)
        for part in range(3):
            acc.apply_grad(*rows_of(3.0, part * ROWS // 2, ROWS // 2, dtype))
        small = rows_of(1.0, 0, 1, dtype)
        with little_memory():
            accepted = sum(accepted_or_exhausted(acc.apply_grad, *small) for _ in range(30))
            assert state(acc) == (3 + accepted, 0, 0)
        acc.apply_grad(*small)
        taken = acc.take_grad(4 + accepted)
        np.testing.assert_array_equal(taken.indices, np.arange(3 * ROWS // 2))
        np.testing.assert_array_equal(taken.values[0], np.full([WIDTH], 4.0 + accepted))
        assert (np.min(taken.values[1:]), np.max(taken.values[1:])) == (3.0, 3.0)
        assert state(acc) == (0, 1, 0)

    @pytest.mark.parametrize("reduction", ["SUM", "MEAN", "GLOBAL_MEAN"])
    @pytest.mark.parametrize("order", ["sorted", "reversed"])
    def test_take_leaves_the_gradients(self, ours, reduction, order):
        acc = sparse(ours, reduction=reduction)
        indices, values = rows_of(3.0)
        for _ in range(2):
            acc.apply_grad(indices if order == "sorted" else indices[::-1], values)
        failures = 0
        with little_memory():
            for take_grad in (acc.take_grad, acc.try_take_grad, acc.take_grad):
                try:
                    take_grad(2)
                except tf.errors.ResourceExhaustedError:
                    failures += 1
                    assert state(acc) == (2, 0, 0)
        assert failures == 3, "there was no memory for what is taken"
        assert_taken(acc.take_grad(2), ROWS, 6.0 if reduction == "SUM" else 3.0)
        assert state(acc) == (0, 1, 0)

    def test_take_of_a_single_gradient_in_order_needs_no_memory(self, ours):
        acc = sparse(ours)
        acc.apply_grad(*rows_of(3.0))
        with little_memory():
            taken = acc.take_grad(1)
        assert_taken(taken, ROWS, 3.0)

    def test_apply_that_completes_a_waiting_take_loses_nothing(self, ours):
        assert_taken(take_that_waits(sparse(ours), rows_of(3.0)), ROWS, 6.0)

    def test_small_apply_that_completes_a_waiting_take_loses_nothing(self, ours):
        """The apply has enough memory, and the take that it completes has not."""
        acc = sparse(ours)
        acc.apply_grad(*rows_of(3.0))
        waiting = Background(lambda: acc.take_grad(2))
        waiting.wait_until_blocked()
        with little_memory():
            assert accepted_or_exhausted(acc.apply_grad, *rows_of(3.0, 0, 1))
            assert isinstance(waiting.error(), tf.errors.ResourceExhaustedError)
            assert state(acc) == (2, 0, 0)
        taken = acc.take_grad(2)
        np.testing.assert_array_equal(taken.values[:2], np.stack([[6.0] * WIDTH, [3.0] * WIDTH]))
        assert state(acc) == (0, 1, 0)
