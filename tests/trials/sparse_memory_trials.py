"""Trials of allocations that are refused to sparse accumulators, which must keep their state."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import Background
from tests.support.memory_limits import (
    MEGABYTE,
    accepted_or_exhausted,
    assert_all_equal,
    little_memory,
    num_accepted_later,
    state,
    take_that_waits,
    warm_up,
)
from tests.support.trial_runs import Trials

WIDTH = 64
ROWS = MEGABYTE  # A gradient has 256 MB of float32 values and 8 MB of row numbers.
TRIALS = Trials()


def warmed_up(impl: Any, dtype: Any = tf.float32, reduction: str = "SUM") -> Any:
    acc = impl.sparse(dtype, reduction_type=reduction)
    return warm_up(acc, 12, tf.constant([3, 1, 3]), tf.ones([3, WIDTH], dtype))


def gradient(value: float, first_row: int = 0, rows: int = ROWS, dtype: Any = tf.float32) -> tuple:
    return tf.range(first_row, first_row + rows, dtype=tf.int64), tf.cast(
        tf.fill([rows, WIDTH], value), dtype
    )


def assert_taken(taken: Any, rows: int, value: float) -> None:
    np.testing.assert_array_equal(taken.indices, np.arange(rows))
    assert_all_equal(taken.values, value)


@TRIALS.add_each(dtype=(tf.float32, tf.float16))
def first_apply(impl: Any, dtype: tf.DType) -> None:
    acc = warmed_up(impl, dtype)
    parts = gradient(3.0, rows=ROWS * 4 // dtype.size, dtype=dtype)
    with little_memory():
        accepted = accepted_or_exhausted(acc.apply_grad, *parts)
    assert not accepted, "an eager tensor has to be copied, and there was no memory for it"
    assert state(acc) == (0, 0, 0)
    acc.apply_grad(*parts)
    assert_taken(acc.take_grad(1), len(parts[0]), 3.0)


@TRIALS.add_each(dtype=(tf.int32, tf.int64))
def apply_of_very_many_rows_without_elements(impl: Any, dtype: tf.DType) -> None:
    """There is too little memory for the row numbers alone."""
    acc = warmed_up(impl)
    rows = tf.range(32 * MEGABYTE, dtype=dtype)
    values = tf.ones([32 * MEGABYTE, 0])
    with little_memory():
        accepted = accepted_or_exhausted(acc.apply_grad, rows, values)
    assert not accepted
    assert state(acc) == (0, 0, 0)
    acc.apply_grad([1], tf.ones([1, WIDTH]))
    assert_taken_one_row(acc.take_grad(1))


def assert_taken_one_row(taken: Any) -> None:
    np.testing.assert_array_equal(taken.indices, [1])
    np.testing.assert_array_equal(taken.values, np.ones([1, WIDTH]))


@TRIALS.add
def later_applies(impl: Any) -> None:
    acc, parts = warmed_up(impl), gradient(3.0)
    accepted = num_accepted_later(acc, parts, attempts=5)
    assert accepted < 6, "some must have been refused"
    acc.apply_grad(*parts)
    assert_taken(acc.take_grad(accepted + 1), ROWS, 3.0 * (accepted + 1))


@TRIALS.add_each(dtype=(tf.float32, tf.float16))
def fold(impl: Any, dtype: tf.DType) -> None:
    """Small gradients cause a merge of the large ones that are accumulated."""
    acc = warmed_up(impl, dtype)
    for part in range(3):
        acc.apply_grad(*gradient(3.0, part * ROWS // 2, ROWS // 2, dtype))
    small = gradient(1.0, 0, 1, dtype)
    with little_memory():
        accepted = sum(accepted_or_exhausted(acc.apply_grad, *small) for _ in range(30))
        assert state(acc) == (3 + accepted, 0, 0)
    acc.apply_grad(*small)
    taken = acc.take_grad(4 + accepted)
    np.testing.assert_array_equal(taken.indices, np.arange(3 * ROWS // 2))
    np.testing.assert_array_equal(taken.values[0], np.full([WIDTH], 4.0 + accepted))
    assert (np.min(taken.values[1:]), np.max(taken.values[1:])) == (3.0, 3.0)
    assert state(acc) == (0, 1, 0)


@TRIALS.add_each(reduction=("SUM", "MEAN", "GLOBAL_MEAN"), order=("sorted", "reversed"))
def take(impl: Any, reduction: str, order: str) -> None:
    acc = warmed_up(impl, reduction=reduction)
    indices, values = gradient(3.0)
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


@TRIALS.add
def take_of_a_single_gradient_in_order_needs_no_memory(impl: Any) -> None:
    acc = warmed_up(impl)
    acc.apply_grad(*gradient(3.0))
    with little_memory():
        taken = acc.take_grad(1)
    assert_taken(taken, ROWS, 3.0)


@TRIALS.add
def apply_that_completes_a_waiting_take(impl: Any) -> None:
    assert_taken(take_that_waits(warmed_up(impl), gradient(3.0)), ROWS, 6.0)


@TRIALS.add
def small_apply_that_completes_a_waiting_take(impl: Any) -> None:
    """The apply has enough memory, and the take that it completes has not."""
    acc = warmed_up(impl)
    acc.apply_grad(*gradient(3.0))
    waiting = Background(lambda: acc.take_grad(2))
    waiting.wait_until_blocked()
    with little_memory():
        assert accepted_or_exhausted(acc.apply_grad, *gradient(3.0, 0, 1))
        assert isinstance(waiting.error(), tf.errors.ResourceExhaustedError)
        assert state(acc) == (2, 0, 0)
    taken = acc.take_grad(2)
    np.testing.assert_array_equal(taken.values[:2], np.stack([[6.0] * WIDTH, [3.0] * WIDTH]))
    assert state(acc) == (0, 1, 0)
