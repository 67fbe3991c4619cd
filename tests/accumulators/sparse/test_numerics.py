"""Tests of the values of taken rows, which equal a merge by brute force to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.numerics import PATHS, OwnedDriver, assert_same_bits, is_narrow
from tests.accumulators.support.rows import Rows, RowsEagerDriver, RowsGraphDriver
from tests.accumulators.support.sparse_reference import HALVES, REDUCTIONS, random_rows, reference

pytestmark = pytest.mark.kinds("sparse")

INTEGERS = (tf.int32, tf.int64)
DTYPES = (*HALVES, tf.float32, tf.float64, tf.complex64, tf.complex128, *INTEGERS)
FLOATS = (tf.float32, tf.float64)


class OwnedRowsDriver(OwnedDriver, RowsGraphDriver):
    """Applies values that the step has computed itself, so that nothing else holds their buffer."""

    def _build_applies(self, acc):
        RowsGraphDriver._build_applies(self, acc)


PATH_DRIVERS = {"fed": RowsGraphDriver, "owned": OwnedRowsDriver, "eager": RowsEagerDriver}


def sum_through(acc, path, gradients, step):
    waiting = acc.start_take(len(gradients)) if path == "waiting" else None
    for gradient in gradients:
        acc.apply(gradient, step)
    return waiting.result() if waiting else acc.take(len(gradients))


def check(acc, path, gradients, step, dtype, reduction):
    got = sum_through(acc, path, gradients, step)
    expected = reference(gradients, dtype, reduction)
    np.testing.assert_array_equal(got.indices, expected.indices)
    assert_same_bits(got.values, expected.values)


def path_driver(impl, path, dtype, reduction):
    return PATH_DRIVERS.get(path, OwnedRowsDriver)(impl, dtype, reduction_type=reduction)


# Each case has the number of gradients, the rows of each, the rows of the tensor, and the width.
CASES = [
    (1, 5, 10, (3,)),
    (2, 1, 1, ()),
    (3, 40, 20, (7,)),
    (7, 100, 1000, (2, 3)),
    (9, 0, 5, (4,)),
    (12, 300, 100, (16,)),
    (40, 50, 60, (5,)),
    (5, 3000, 2000, (33,)),
]


@pytest.mark.narrow(to=is_narrow)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_equals_the_merge_by_brute_force_to_the_bit(ours, seed, dtype, reduction, path):
    if dtype in INTEGERS and reduction != "SUM":
        with pytest.raises(ValueError, match="mean"):
            ours.sparse(dtype, reduction_type=reduction)
        return
    rng = np.random.default_rng(seed)
    acc = path_driver(ours, path, dtype, reduction)
    for step, (count, size, num_rows, width) in enumerate(CASES):
        sizes = [size if i % 4 else size // 2 for i in range(count)]
        order = ("any", "unique", "ascending")[step % 3]
        gradients = [random_rows(rng, dtype, s, num_rows, width, order) for s in sizes]
        check(acc, path, gradients, step, dtype, reduction)
    acc.close()


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_in_order_come_to_the_same_bits_as_with_the_original(impl, seed, dtype, reduction):
    rng = np.random.default_rng(seed)
    acc = RowsGraphDriver(impl, dtype, reduction_type=reduction)
    for step, (count, size, num_rows, width) in enumerate(CASES):
        gradients = [
            random_rows(rng, dtype, size, num_rows, width, "ascending") for _ in range(count)
        ]
        check(acc, "fed", gradients, step, dtype, reduction)
    acc.close()


# Only `make test-long` runs all pairs.
BIG_SUMS = [
    pytest.param(
        reduction, path, marks=() if reduction == "MEAN" or path == "owned" else pytest.mark.long
    )
    for reduction in REDUCTIONS
    for path in ("owned", "waiting", "eager")
]


@pytest.mark.narrow(
    to=lambda reduction, path, dtype: (
        (reduction, path, dtype)
        in [("MEAN", "owned", tf.float32), ("MEAN", "waiting", tf.bfloat16)]
    )
)
@pytest.mark.parametrize(("reduction", "path"), BIG_SUMS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_sums_that_are_too_big_to_be_kept_apart_have_the_same_bits(
    ours, seed, dtype, reduction, path
):
    """The gradients have 200 MB of float32 values, and are merged while more of them arrive."""
    rng = np.random.default_rng(seed)
    pool = [random_rows(rng, dtype, 20000, 30000, (64,), "any") for _ in range(3)]
    gradients = [pool[i] for i in rng.integers(0, 3, 39)] + [Rows([], np.ones([0, 64]))]
    acc = path_driver(ours, path, dtype, reduction)
    check(acc, path, gradients, 0, dtype, reduction)
    acc.close()


def test_many_small_gradients_have_the_same_bits(ours, seed, rows_driver):
    rng = np.random.default_rng(seed)
    acc = rows_driver(ours, tf.float32)
    gradients = [random_rows(rng, tf.float32, 3, 50, (4,), "any") for _ in range(3000)]
    check(acc, "", gradients, 0, tf.float32, "MEAN")


def test_infinities_nans_and_signed_zeros_are_kept(ours, rows_driver):
    special = np.float32([np.inf, -np.inf, np.nan, -0.0, 0.0, -0.0, 3e38, np.inf])
    others = np.float32([1.0, 1.0, 1.0, -0.0, -0.0, 0.0, 3e38, -np.inf])
    rows = np.arange(8)
    for reduction in REDUCTIONS:
        acc = rows_driver(ours, reduction_type=reduction)
        rounds = [[special], [special, others], [others, special] * 6]
        for step, values in enumerate(rounds):
            gradients = [Rows(rows, value) for value in values]
            with np.errstate(all="ignore"):
                expected = reference(gradients, tf.float32, reduction).values
            got = sum_through(acc, "", gradients, step).values
            np.testing.assert_array_equal(got, expected)
            signed = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])


@pytest.mark.narrow(to=lambda times: times < 66000)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("times", "value"), [(4096, 0.1), (3, 30000.0), (66000, 1.0)])
def test_halves_are_accumulated_in_float32_and_rounded_once(ours, dtype, times, value):
    constant = tf.constant(value, dtype)
    for reduction in ("MEAN", "GLOBAL_MEAN"):
        acc = ours.sparse(dtype, reduction_type=reduction)
        acc.apply_grad([7] * times, tf.repeat(constant, times))
        repeated = float(acc.take_grad(1).values[0])
        with np.errstate(over="ignore"):
            total = np.float32(0)
            for _ in range(times):
                total += np.float32(constant)
            assert repeated == float(total.astype(dtype.as_numpy_dtype))
    acc = ours.sparse(dtype)

    @tf.function
    def one_by_one():
        for _ in tf.range(times):
            acc.apply_grad([7], constant[None])
        return acc.take_grad(times).values[0]

    assert float(one_by_one()) == float(constant)


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
def test_integer_sums_wrap_around_like_numpys(ours, dtype):
    acc = ours.sparse(dtype, reduction_type="SUM")
    for values in ([dtype.max, 5], [1, -7], [1, 0]):
        acc.apply_grad([1, 2], tf.constant(values, dtype))
    np.testing.assert_array_equal(acc.take_grad(3).values, [dtype.min + 1, -2])
