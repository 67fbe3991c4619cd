"""Tests of the values of taken rows, which equal a merge by brute force to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import OwnedCalls, SessionCalls
from tests.accumulators.support.numerics import (
    HALF_CASES,
    HALVES,
    INTEGERS,
    PATHS,
    PATHS_AND_DTYPES,
    ROUNDS_OF_SPECIALS,
    assert_same_bits,
    assert_same_specials,
    total_through,
)
from tests.accumulators.support.rows import Rows
from tests.accumulators.support.sparse_reference import REDUCTIONS, random_rows, reference

pytestmark = pytest.mark.kinds("sparse")
# Each case has the number of gradients, the rows of each, the rows of the tensor, and the width.
CASES = [
    *[(1, 5, 10, (3,)), (2, 1, 1, ()), (3, 40, 20, (7,)), (7, 100, 1000, (2, 3)), (9, 0, 5, (4,))],
    *[(12, 300, 100, (16,)), (40, 50, 60, (5,)), (5, 3000, 2000, (33,))],
]


def check(acc, path, gradients, step, dtype, reduction):
    got = total_through(acc, path, gradients, step)
    expected = reference(gradients, dtype, reduction)
    np.testing.assert_array_equal(got.indices, expected.indices)
    assert_same_bits(got.values, expected.values)


@pytest.mark.parametrize(("path", "dtype"), PATHS_AND_DTYPES)
def test_a_result_has_the_bits_of_a_merge_by_brute_force(ours, seed, path, dtype):
    rng = np.random.default_rng(seed)
    for reduction in ["SUM"] if dtype.is_integer else REDUCTIONS:
        acc = PATHS[path](ours, dtype, rows=True, reduction_type=reduction)
        for step, (count, size, num_rows, width) in enumerate(CASES):
            sizes = [size if i % 4 else size // 2 for i in range(count)]
            order = ("any", "unique", "ascending")[step % 3]
            gradients = [random_rows(rng, dtype, s, num_rows, width, order) for s in sizes]
            check(acc, path, gradients, step, dtype, reduction)
        acc.close()


def test_rows_in_order_come_to_the_same_bits_with_the_original(original, seed):
    rng = np.random.default_rng(seed)
    for reduction in ("MEAN", "SUM"):
        acc = SessionCalls(original, tf.float32, rows=True, reduction_type=reduction)
        for step, (count, size, num_rows, width) in enumerate(CASES):
            gradients = [
                random_rows(rng, tf.float32, size, num_rows, width, "ascending")
                for _ in range(count)
            ]
            check(acc, "fed", gradients, step, tf.float32, reduction)
        acc.close()


@pytest.mark.parametrize(
    ("path", "dtype", "reduction"),
    [
        ("owned", tf.float32, "MEAN"),
        ("waiting", tf.bfloat16, "MEAN"),
        pytest.param("eager", tf.float32, "GLOBAL_MEAN", marks=pytest.mark.wide),
    ],
)
def test_sums_that_are_too_big_to_be_kept_apart_have_the_same_bits(
    ours, seed, path, dtype, reduction
):
    """The gradients have 200 MB of float32 values, and are merged while more of them arrive."""
    rng = np.random.default_rng(seed)
    pool = [random_rows(rng, dtype, 20000, 30000, (64,), "any") for _ in range(3)]
    gradients = [pool[i] for i in rng.integers(0, 3, 39)] + [Rows([], np.ones([0, 64]))]
    acc = PATHS[path](ours, dtype, rows=True, reduction_type=reduction)
    check(acc, path, gradients, 0, dtype, reduction)
    acc.close()


def test_many_small_gradients_have_the_same_bits(ours, seed, rows_driver):
    rng = np.random.default_rng(seed)
    acc = rows_driver(ours, tf.float32)
    gradients = [random_rows(rng, tf.float32, 3, 50, (4,), "any") for _ in range(3000)]
    check(acc, "", gradients, 0, tf.float32, "MEAN")


def test_infinities_nans_and_signed_zeros_are_kept(ours, rows_driver):
    rows = np.arange(8)
    for reduction in REDUCTIONS:
        acc = rows_driver(ours, reduction_type=reduction)
        for step, values in enumerate(ROUNDS_OF_SPECIALS):
            gradients = [Rows(rows, value) for value in values]
            with np.errstate(all="ignore"):
                expected = reference(gradients, tf.float32, reduction).values
            assert_same_specials(total_through(acc, "", gradients, step).values, expected)


@pytest.mark.parametrize(("times", "value"), list(HALF_CASES)[1:3])
def test_halves_are_accumulated_in_float32_and_rounded_once(ours, times, value):
    for dtype in HALVES:
        constant = tf.constant(value, dtype)
        for reduction in ("MEAN", "GLOBAL_MEAN"):
            acc = ours.sparse(dtype, reduction_type=reduction)
            acc.apply_grad([7] * times, tf.repeat(constant, times))
            with np.errstate(over="ignore"):
                total = np.float32(0)
                for _ in range(times):
                    total += np.float32(constant)
                expected = float(total.astype(dtype.as_numpy_dtype))
            assert float(acc.take_grad(1).values[0]) == expected
        acc = ours.sparse(dtype)
        one_by_one = tf.function(lambda acc=acc, constant=constant: loop(acc, constant, times))
        assert float(one_by_one()) == float(constant)


def loop(acc, constant, times):
    for _ in tf.range(times):
        acc.apply_grad([7], constant[None])
    return acc.take_grad(times).values[0]


def test_original_rounds_halves_at_every_addition(original):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        acc = original.sparse(tf.float16)
        apply = acc.apply_grad([7], tf.constant([0.1], tf.float16), local_step=1)
        with tf.compat.v1.variable_scope("loop"):
            loop = tf.compat.v1.while_loop(
                lambda i: i < 4096,
                lambda i: tf.tuple([i + 1], control_inputs=[apply])[0],
                [0],
                parallel_iterations=1,
            )
        session.run(loop)
        applied = session.run(acc.num_accumulated())
        for _ in range(4096 - applied):
            session.run(apply)
        assert session.run(acc.take_grad(4096)).values[0] == 0.0625


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_of_integers_wrap_around_like_numpys(ours, dtype):
    acc = OwnedCalls(ours, dtype, rows=True, reduction_type="SUM")
    for values in ([dtype.max, 5], [1, -7], [1, 0]):
        acc.apply(Rows([1, 2], values))
    np.testing.assert_array_equal(acc.take(3).values, [dtype.min + 1, -2])
