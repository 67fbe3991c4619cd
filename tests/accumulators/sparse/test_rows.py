"""Tests of the rows that a take returns, and of their values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.rows import Rows, assert_rows
from tests.support.versions import needs_numpy2

pytestmark = pytest.mark.kinds("sparse")

INT64_MAX = 2**63 - 1
THREE = [Rows([0, 2], [2.0, 3.0]), Rows([0], [4.0]), Rows([0, 4], [6.0, 8.0])]


def taken(acc, gradients, step=0):
    for gradient in gradients:
        acc.apply(gradient, step)
    return acc.take(len(gradients))


def test_global_mean_is_what_the_dense_accumulator_makes_of_the_dense_gradients(ours):
    sparse = ours.sparse(tf.float32, [5], reduction_type="GLOBAL_MEAN")
    dense = ours.module.ConditionalAccumulator(tf.float32, [5])
    for gradient in (tf.IndexedSlices([2.0, 3.0, 1.0], [3, 0, 3], [5]), THREE[1], THREE[2]):
        if isinstance(gradient, Rows):
            gradient = tf.IndexedSlices(gradient.values, gradient.indices, [5])
        sparse.apply_indexed_slices_grad(gradient)
        dense.apply_grad(tf.convert_to_tensor(gradient))
    np.testing.assert_array_equal(
        tf.convert_to_tensor(sparse.take_indexed_slices_grad(3)), dense.take_grad(3)
    )


def test_original_returns_rows_twice_that_are_not_in_order(original, rows_driver):
    acc = rows_driver(original, reduction_type="SUM")
    got = taken(acc, [Rows([5, 1], [5.0, 1.0]), Rows([1, 5], [10.0, 50.0])])
    np.testing.assert_array_equal(got.indices, [1, 5, 1])
    np.testing.assert_array_equal(got.values, [10.0, 55.0, 1.0])


def test_original_counts_repeated_rows_as_they_come(original, rows_driver):
    acc = rows_driver(original)
    got = taken(acc, [Rows([1, 1], [1.0, 10.0]), Rows([1], [100.0])])
    np.testing.assert_array_equal(got.indices, [1, 1])
    np.testing.assert_array_equal(got.values, [50.5, 10.0])


def test_single_gradient_in_order_comes_out_as_it_is(impl, rows_driver):
    got = taken(rows_driver(impl), [Rows([1, 3], [[0.1, 0.2], [0.3, -0.0]])])
    assert_rows(got, [1, 3], np.float32([[0.1, 0.2], [0.3, -0.0]]))
    assert np.signbit(got.values[1, 1])


def test_same_gradients_give_the_same_bits_every_time(ours, rows_driver, seed):
    rng = np.random.default_rng(seed)
    gradients = [
        Rows(rng.integers(0, 6000, 20000), rng.standard_normal([20000, 16])) for _ in range(12)
    ]
    acc = rows_driver(ours)
    first = taken(acc, gradients)
    for step in range(1, 6):
        again = taken(acc, gradients, step)
        assert again.indices.tobytes() == first.indices.tobytes()
        assert again.values.tobytes() == first.values.tobytes()


@pytest.mark.parametrize("count", [1, 2, 20])
def test_gradients_without_rows_alone_come_to_no_rows(impl, rows_driver, count):
    got = taken(rows_driver(impl, shape=[None, 3, 2]), [Rows([], np.ones([0, 3, 2]))] * count)
    assert_rows(got, [], np.ones([0, 3, 2]), [-1, 3, 2])


def test_gradient_without_rows_pins_the_width_until_the_take(impl, rows_driver):
    acc = rows_driver(impl)
    acc.apply(Rows([], np.ones([0, 2])))
    message = "Shape mismatch: expected values dim 1 to be 2, got 3"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        acc.apply(Rows([1], np.ones([1, 3])))
    assert acc.count() == 1
    acc.take(1)
    acc.apply(Rows([1], np.ones([1, 3])), 1)
    assert_rows(acc.take(1), [1], np.ones([1, 3]), [-1, 3])


@pytest.mark.parametrize(
    "width",
    [
        *[(), (1,), (7,), (2, 3), (1, 2, 1, 3), (2,) * 8],
        pytest.param((1,) * 60, marks=needs_numpy2),
    ],
)
def test_rows_of_any_rank_are_added(impl, rows_driver, width):
    values = np.arange(2 * np.prod(width, dtype=int), dtype=np.float32).reshape(2, *width)
    acc = rows_driver(impl, reduction_type="SUM")
    got = taken(acc, [Rows([0, 2], values), Rows([2, 3], 10.0 * values)])
    assert_rows(got, [0, 2, 3], [values[0], values[1] + 10.0 * values[0], 10.0 * values[1]])
    np.testing.assert_array_equal(got.shape, [-1, *width])


@pytest.mark.parametrize("width", [(0,), (3, 0), (0, 2, 0)])
def test_rows_without_elements_are_rows(impl, rows_driver, width):
    gradients = [Rows([1, 2], np.ones([2, *width])), Rows([2, 9], np.ones([2, *width]))]
    assert_rows(taken(rows_driver(impl), gradients), [1, 2, 9], np.ones([3, *width]))


def test_row_numbers_may_be_huge(impl, rows_driver):
    gradients = [
        Rows([0, 2**31, 2**62], [1.0, 2.0, 3.0]),
        Rows([2**31 - 1, 2**62, INT64_MAX], [10.0, 20.0, 30.0]),
    ]
    acc = rows_driver(impl, reduction_type="SUM")
    rows = [0, 2**31 - 1, 2**31, 2**62, INT64_MAX]
    assert_rows(taken(acc, gradients), rows, [1.0, 10.0, 2.0, 23.0, 30.0])


def test_huge_row_numbers_may_come_in_any_order(ours, rows_driver, seed):
    rng = np.random.default_rng(seed)
    pool = np.concatenate([rng.integers(0, INT64_MAX, 3000), [0, INT64_MAX, 2**62]])
    acc = rows_driver(ours, reduction_type="SUM")
    total: dict[int, float] = {}
    gradients = [Rows(rng.choice(pool, 5000), rng.integers(0, 99, 5000)) for _ in range(10)]
    for gradient in gradients:
        for row, value in zip(gradient.indices.tolist(), gradient.values.tolist(), strict=True):
            total[row] = total.get(row, 0.0) + value
    rows = sorted(total)
    assert_rows(taken(acc, gradients), rows, [total[row] for row in rows])


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_row_numbers_of_either_dtype_come_out_as_int64(impl, rows_driver, dtype):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        acc = impl.sparse(tf.float32)
        apply = acc.apply_grad(tf.constant([1, 5], dtype), [1.0, 2.0])
        session.run([apply, acc.apply_grad(tf.constant([5, 6], dtype), [4.0, 8.0])])
        assert_rows(session.run(acc.take_grad(2)), [1, 5, 6], [1.0, 3.0, 8.0])


SHAPES = {
    "unknown": (None, [-1, 2]),
    "scalar": ([], [-1, 2]),
    "open": ([None, 2], [-1, 2]),
    "wider_open": ([None, None], [-1, 2]),
    "rows_known": ([9, None], [9, 2]),
    "known": ([9, 2], [9, 2]),
}


@pytest.mark.parametrize("grad_shape", [None, [9, 2]])
@pytest.mark.parametrize("which", SHAPES)
def test_number_of_rows_is_minus_one_unless_the_constructor_knew_it(
    impl, rows_driver, which, grad_shape
):
    shape, expected = SHAPES[which]
    gradients = [Rows([1], [[2.0, 4.0]], grad_shape), Rows([8], [[6.0, 8.0]], grad_shape)]
    got = taken(rows_driver(impl, shape=shape), gradients)
    assert_rows(got, [1, 8], [[2.0, 4.0], [6.0, 8.0]], expected)


def test_try_take_of_too_few_gradients_returns_no_rows(ours, rows_driver):
    for shape, width, expected in ((None, (), [-1]), ([5, 2, None], (2, 0), [5, 2, 0])):
        acc = rows_driver(ours, shape=shape)
        taken, rows = acc.try_take(1)
        assert taken is False
        assert_rows(rows, [], np.ones([0, *width]), expected)
