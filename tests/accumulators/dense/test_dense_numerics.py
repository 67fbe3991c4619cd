"""Tests of sums of dense gradients: they are those of NumPy to the bit, in the order of arrival."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import OwnedCalls
from tests.accumulators.support.numerics import (
    DTYPES,
    HALF_CASES,
    HALVES,
    INTEGERS,
    PATHS,
    PATHS_AND_DTYPES,
    ROUNDS_OF_SPECIALS,
    arrived_sum,
    assert_same_bits,
    assert_same_specials,
    random_gradients,
    total_through,
)

# More than 1 MB of float32 are added by several threads.
SIZES_AND_COUNTS = [(7, (1, 2, 3, 5, 16, 40)), (300_007, (3, 12))]


def check(impl, path, dtype, seed, device=None) -> None:
    rng = np.random.default_rng(seed)
    for reduction in ["SUM"] if dtype.is_integer else ["MEAN", "SUM"]:
        acc = PATHS[path](impl, dtype, reduction_type=reduction, device=device)
        cases = [(size, count) for size, counts in SIZES_AND_COUNTS for count in counts]
        for step, (size, count) in enumerate(cases):
            gradients = random_gradients(rng, dtype, count, size)
            got = total_through(acc, path, gradients, step)
            assert_same_bits(got, arrived_sum(gradients, dtype, reduction))
        acc.close()


@pytest.mark.parametrize(("path", "dtype"), PATHS_AND_DTYPES)
def test_a_result_has_the_bits_of_numpys(ours, device, seed, path, dtype):
    check(ours, path, dtype, seed, device)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_so_has_that_of_the_original(original, seed, dtype):
    check(original, "owned", dtype, seed)


def test_infinities_nans_and_signed_zeros_are_kept(impl, driver):
    for reduction in ("SUM", "MEAN"):
        acc = driver(impl, tf.float32, reduction_type=reduction)
        for step, gradients in enumerate(ROUNDS_OF_SPECIALS):
            with np.errstate(all="ignore"):
                expected = arrived_sum(np.stack(gradients), tf.float32, reduction)
            assert_same_specials(total_through(acc, "", gradients, step), expected)


def test_long_runs_of_gradients_keep_their_order_and_shape(impl, seed, driver):
    rng = np.random.default_rng(seed)
    acc = driver(impl, tf.float32, [None, 5, 7], reduction_type="SUM")
    gradients = random_gradients(rng, tf.float32, 500, 105).reshape(500, 3, 5, 7)
    got = total_through(acc, "", gradients, 0)
    assert_same_bits(got, arrived_sum(gradients, tf.float32, "SUM"))


def repeated(acc, value, times):
    """Applies one value many times in a `while_loop`, then takes."""

    @tf.function
    def loop():
        for _ in tf.range(times):
            acc.apply_grad(value)
        return acc.take_grad(times)

    return float(loop())


@pytest.mark.parametrize(("times", "value"), HALF_CASES)
def test_halves_are_rounded_once_by_ours_and_at_every_addition_by_the_original(
    ours, original, times, value
):
    acc = original.dense(tf.float16, [], shared_name=f"half_{times}_{value}")
    assert repeated(acc, tf.constant(value, tf.float16), times) == HALF_CASES[times, value]
    for dtype in HALVES:
        constant = tf.constant(value, dtype)
        assert repeated(ours.dense(dtype, []), constant, times) == float(constant)


def test_a_sum_of_halves_that_does_not_fit_is_infinite_only_on_take(ours):
    acc = ours.dense(tf.float16, [], reduction_type="SUM")
    for value in (60000.0, 60000.0, -60000.0):
        acc.apply_grad(value)
    assert acc.take_grad(3).numpy() == 60000.0
    for value in (60000.0, 60000.0):
        acc.apply_grad(value, 1)
    assert acc.take_grad(2).numpy() == np.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_takes_have_the_dtype_of_the_accumulator(ours, dtype):
    acc = ours.dense(dtype, [2], reduction_type="SUM")
    acc.apply_grad(tf.constant([1, 2], dtype))
    taken = acc.take_grad(1)
    for take in (acc.try_take_grad, lambda required: acc.try_take_grad(required, global_step=1)):
        tried, value = take(1)
        assert taken.dtype == value.dtype == dtype and not tried


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_of_integers_wrap_around_like_numpys(ours, dtype):
    acc = OwnedCalls(ours, dtype, [2], reduction_type="SUM")
    for value in ([dtype.max, 5], [1, -7], [1, 0]):
        acc.apply(value)
    np.testing.assert_array_equal(acc.take(3), [dtype.min + 1, -2])
