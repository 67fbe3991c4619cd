"""Trials of allocations that are refused; the accumulator must keep its state."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

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

ELEMENTS = 64 * MEGABYTE  # The gradient is 256 MB of float32.
TRIALS = Trials()


def warmed_up(impl: Any, dtype: tf.DType = tf.float32, reduction: str = "SUM") -> Any:
    return warm_up(impl.dense(dtype, reduction_type=reduction), 4, tf.ones([10], dtype))


def gradient(dtype: tf.DType = tf.float32, elements: int = ELEMENTS) -> tf.Tensor:
    return tf.fill([elements], tf.constant(3.0, dtype))


@TRIALS.add_each(dtype=(tf.float32, tf.float16))
def first_apply(impl: Any, dtype: tf.DType) -> None:
    acc, first = warmed_up(impl, dtype), gradient(dtype)
    with little_memory():
        accepted = accepted_or_exhausted(acc.apply_grad, first)
    if dtype == tf.float32:
        assert not accepted, "an eager tensor has to be copied, and there was no memory for it"
    assert state(acc) == (int(accepted), 0, 0)
    acc.apply_grad(first)
    assert state(acc) == (accepted + 1, 0, 0)
    assert_all_equal(acc.take_grad(1), 6.0 if accepted else 3.0)


@TRIALS.add
def later_applies(impl: Any) -> None:
    acc, later = warmed_up(impl), gradient()
    accepted = num_accepted_later(acc, (later,), attempts=6)
    acc.apply_grad(later)
    assert state(acc) == (accepted + 1, 0, 0)
    assert_all_equal(acc.take_grad(accepted + 1), 3.0 * (accepted + 1))


@TRIALS.add_each(dtype=(tf.float32, tf.float16), reduction=("SUM", "MEAN"))
def take(impl: Any, dtype: tf.DType, reduction: str) -> None:
    acc = warmed_up(impl, dtype, reduction)
    for _ in range(2):
        acc.apply_grad(gradient(dtype, ELEMENTS * 4 // dtype.size))
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


@TRIALS.add
def apply_that_completes_a_waiting_take(impl: Any) -> None:
    assert_all_equal(take_that_waits(warmed_up(impl), (gradient(),)), 6.0)
