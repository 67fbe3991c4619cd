"""Trials: allocations that are refused; the accumulator must be as it was before."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from accumulator_support import Background
from memory_limits import MEGABYTE, accepted_or_exhausted, little_memory
from trial_runs import run_trials

ELEMENTS = 64 * MEGABYTE  # 256 MB of float32


def warmed_up(impl: Any, dtype: Any = tf.float32, **kwargs: Any) -> Any:
    """An accumulator through which small gradients have gone, at step 0 again."""
    acc = impl.dense(dtype, reduction_type=kwargs.pop("reduction_type", "SUM"), **kwargs)
    for _ in range(4):
        acc.apply_grad(tf.ones([10], dtype), 10)
    acc.take_grad(1)
    acc.set_global_step(0)
    return acc


def assert_all_equal(tensor: Any, value: float) -> None:
    low, high = np.min(tensor), np.max(tensor)
    assert (low, high) == (value, value), (low, high)


def first_apply(impl: Any) -> None:
    acc, gradient = warmed_up(impl), tf.fill([ELEMENTS], 3.0)
    with little_memory():
        accepted = accepted_or_exhausted(lambda: acc.apply_grad(gradient))
    assert not accepted, "an eager tensor has to be copied, and there was no memory for it"
    assert int(acc.num_accumulated()) == 0
    assert (int(acc.global_step()), int(acc.num_dropped())) == (0, 0)
    acc.apply_grad(gradient)
    assert int(acc.num_accumulated()) == 1
    assert_all_equal(acc.take_grad(1), 3.0)


def first_apply_of_halves(impl: Any) -> None:
    acc, gradient = warmed_up(impl, tf.float16), tf.fill([ELEMENTS], tf.constant(3.0, tf.float16))
    with little_memory():
        accepted = accepted_or_exhausted(lambda: acc.apply_grad(gradient))
    assert int(acc.num_accumulated()) == int(accepted)
    acc.apply_grad(gradient)
    assert_all_equal(acc.take_grad(1), 6.0 if accepted else 3.0)


def later_applies(impl: Any) -> None:
    acc, gradient = warmed_up(impl), tf.fill([ELEMENTS], 3.0)
    acc.apply_grad(gradient)
    accepted = 1
    with little_memory():
        for _ in range(6):
            accepted += accepted_or_exhausted(lambda: acc.apply_grad(gradient))
            assert int(acc.num_accumulated()) == accepted
    acc.apply_grad(gradient)
    assert int(acc.num_accumulated()) == accepted + 1
    assert_all_equal(acc.take_grad(accepted + 1), 3.0 * (accepted + 1))


def take(impl: Any, reduction: str) -> None:
    acc, gradient = warmed_up(impl, reduction_type=reduction), tf.fill([ELEMENTS], 3.0)
    for _ in range(2):
        acc.apply_grad(gradient)
    value = None
    with little_memory():
        try:
            value = acc.take_grad(2)
        except tf.errors.ResourceExhaustedError:
            assert int(acc.num_accumulated()) == 2
            assert int(acc.global_step()) == 0
    if value is None:
        value = acc.take_grad(2)
    assert_all_equal(value, 6.0 if reduction == "SUM" else 3.0)
    assert (int(acc.num_accumulated()), int(acc.global_step())) == (0, 1)


def take_of_halves(impl: Any) -> None:
    acc = warmed_up(impl, tf.float16)
    gradient = tf.fill([2 * ELEMENTS], tf.constant(3.0, tf.float16))
    for _ in range(2):
        acc.apply_grad(gradient)
    value = None
    with little_memory():
        try:
            value = acc.take_grad(2)
        except tf.errors.ResourceExhaustedError:
            assert int(acc.num_accumulated()) == 2
            assert int(acc.global_step()) == 0
    if value is None:
        value = acc.take_grad(2)
    assert_all_equal(value, 6.0)


def apply_that_completes_a_waiting_take(impl: Any) -> None:
    acc, gradient = warmed_up(impl), tf.fill([ELEMENTS], 3.0)
    acc.apply_grad(gradient)
    waiting = Background(lambda: acc.take_grad(2))
    waiting.wait_until_blocked()
    with little_memory():
        accepted = accepted_or_exhausted(lambda: acc.apply_grad(gradient))
    left = 0
    if not accepted:
        assert not waiting.done and int(acc.num_accumulated()) == 1
        acc.apply_grad(gradient)
    if isinstance(waiting.error(), tf.errors.ResourceExhaustedError):
        left = int(acc.num_accumulated())
        assert left == 2, "a take that failed must leave the gradients"
        assert_all_equal(acc.take_grad(2), 6.0)
    else:
        assert_all_equal(waiting.result(), 6.0)
    assert (int(acc.num_accumulated()), int(acc.global_step())) == (0, 1)


TRIALS = {
    "first_apply": first_apply,
    "first_apply_of_halves": first_apply_of_halves,
    "later_applies": later_applies,
    "take_of_a_sum": lambda impl: take(impl, "SUM"),
    "take_of_a_mean": lambda impl: take(impl, "MEAN"),
    "take_of_halves": take_of_halves,
    "apply_that_completes_a_waiting_take": apply_that_completes_a_waiting_take,
}

if __name__ == "__main__":
    run_trials(TRIALS)
