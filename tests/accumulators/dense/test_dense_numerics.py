"""Tests of the sum of random gradients, which is exact to the bit, in the order of arrival."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.numerics import (
    PATHS,
    as_arrived,
    assert_same_bits,
    divided,
    is_narrow,
    make_driver,
    random_gradients,
    total_through,
)

EVERY_COUNT = range(1, 41)
SOME_COUNTS = (1, 2, 3, 4, 8, 9, 17, 40)
# `make test` covers every count with one of the small sizes, and every size with some counts.
SIZES_AND_COUNTS = [
    pytest.param(size, counts, id=f"{size}-{len(counts)} counts", marks=marks)
    for size, counts, marks in [
        (0, (1, 3), ()),
        (1, SOME_COUNTS, ()),
        (1, EVERY_COUNT, pytest.mark.long),
        (7, EVERY_COUNT, ()),
        (1000, SOME_COUNTS, ()),
        (1000, EVERY_COUNT, pytest.mark.long),
        (70001, SOME_COUNTS, ()),
        (300007, (1, 3, 12), ()),  # More than 1 MB of float32, so threads add it together.
    ]
]


def is_run(dtype: tf.DType, reduction: str, path: str, size: int) -> bool:
    has_any_size = (dtype, reduction, path) == (tf.float32, "MEAN", "owned")
    return is_narrow(dtype, reduction, path) and (size in (7, 70001) or has_any_size)


@pytest.mark.narrow(to=is_run)
@pytest.mark.parametrize(("size", "counts"), SIZES_AND_COUNTS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_sum_is_that_of_adding_in_order_of_arrival(
    impl, seed, dtype, reduction, path, size, counts
):
    rng = np.random.default_rng(seed)
    acc = make_driver(impl, path, dtype, reduction)
    for step, count in enumerate(counts):
        gradients = random_gradients(rng, dtype, count, size)
        expected = as_arrived(gradients)
        if reduction == "MEAN":
            expected = divided(expected, count)
        assert_same_bits(total_through(acc, path, gradients, step), expected)
    acc.close()


@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
def test_infinities_nans_and_signed_zeros_are_kept(impl, driver, reduction):
    acc = driver(impl, tf.float32, reduction_type=reduction)
    special = np.float32([np.inf, -np.inf, np.nan, -0.0, 0.0, -0.0, 3e38, np.inf])
    others = np.float32([1.0, 1.0, 1.0, -0.0, -0.0, 0.0, 3e38, -np.inf])
    for step, gradients in enumerate(([special], [special, others], [others, special] * 3)):
        for gradient in gradients:
            acc.apply(gradient, step)
        with np.errstate(all="ignore"):
            expected = as_arrived(np.stack(gradients))
            expected = divided(expected, len(gradients)) if reduction == "MEAN" else expected
        got = acc.take(len(gradients))
        np.testing.assert_array_equal(got, expected)
        finite = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(expected)[finite])


def test_long_runs_of_gradients_keep_their_order(impl, seed, driver):
    rng = np.random.default_rng(seed)
    acc = driver(impl, tf.float32, reduction_type="SUM")
    gradients = random_gradients(rng, tf.float32, 500, 33)
    for gradient in gradients:
        acc.apply(gradient)
    assert_same_bits(acc.take(500), as_arrived(gradients))


def test_shape_is_kept(impl, seed, driver):
    rng = np.random.default_rng(seed)
    for reduction in ("SUM", "MEAN"):
        acc = driver(impl, tf.float32, [None, 5, 7], reduction_type=reduction)
        gradients = random_gradients(rng, tf.float32, 6, 105).reshape(6, 3, 5, 7)
        for gradient in gradients:
            acc.apply(gradient)
        expected = as_arrived(gradients)
        assert_same_bits(acc.take(6), expected if reduction == "SUM" else divided(expected, 6))


def repeated(acc, value, times):
    """Applies one value many times in a `while_loop`, then takes."""

    @tf.function
    def loop():
        for _ in tf.range(times):
            acc.apply_grad(value)
        return acc.take_grad(times)

    return float(loop())


HALF_CASES = {(4096, 1.0): 0.5, (4096, 0.1): 0.0625, (3, 30000.0): np.inf, (66000, 1.0): 0.0}


@pytest.mark.parametrize(("times", "value"), HALF_CASES)
def test_original_rounds_halves_at_every_addition(original, times, value):
    acc = original.dense(tf.float16, [], shared_name=f"half_{times}_{value}")
    got = repeated(acc, tf.constant(value, tf.float16), times)
    assert got == HALF_CASES[times, value]


@pytest.mark.narrow(to=lambda dtype, times: dtype == tf.float16 or times == 3)
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize(("times", "value"), HALF_CASES)
def test_halves_are_accumulated_in_float32_and_rounded_once(ours, dtype, times, value):
    constant = tf.constant(value, dtype)
    acc = ours.dense(dtype, [])
    assert repeated(acc, constant, times) == float(constant)


def test_sum_of_halves_that_does_not_fit_is_infinite_only_on_take(ours):
    acc = ours.dense(tf.float16, [], reduction_type="SUM")
    for value in (60000.0, 60000.0, -60000.0):
        acc.apply_grad(value)
    assert acc.take_grad(3).numpy() == 60000.0
    for value in (60000.0, 60000.0):
        acc.apply_grad(value, 1)
    assert acc.take_grad(2).numpy() == np.inf
