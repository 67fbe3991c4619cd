"""Tests of the rows that a take returns, and of their values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.accumulators.support.rows import Rows, assert_rows
from tests.support.versions import needs_numpy2

pytestmark = pytest.mark.kinds("sparse")

INT64_MAX = 2**63 - 1


def taken(acc, gradients, step=0):
    for gradient in gradients:
        acc.apply(gradient, step)
    return acc.take(len(gradients))


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


@pytest.mark.parametrize("count", [1, 2, 20])
def test_gradients_without_rows_alone_come_to_no_rows(impl, rows_driver, count):
    got = taken(rows_driver(impl, shape=[None, 3, 2]), [Rows([], np.ones([0, 3, 2]))] * count)
    assert_rows(got, [], np.ones([0, 3, 2]), [-1, 3, 2])


@pytest.mark.parametrize(
    "width",
    [
        *[(), (1,), (2, 3), (2,) * 8, (0,), (0, 2, 0)],
        pytest.param((1,) * 60, marks=needs_numpy2),
    ],
)
def test_rows_of_any_rank_are_added(impl, rows_driver, width):
    values = np.arange(2 * np.prod(width, dtype=int), dtype=np.float32).reshape(2, *width)
    acc = rows_driver(impl, reduction_type="SUM")
    got = taken(acc, [Rows([0, 2], values), Rows([2, 3], 10.0 * values)])
    assert_rows(got, [0, 2, 3], [values[0], values[1] + 10.0 * values[0], 10.0 * values[1]])
    np.testing.assert_array_equal(got.shape, [-1, *width])


def test_row_numbers_may_be_huge(impl, rows_driver):
    gradients = [
        Rows([0, 2**31, 2**62], [1.0, 2.0, 3.0]),
        Rows([2**31 - 1, 2**62, INT64_MAX], [10.0, 20.0, 30.0]),
    ]
    acc = rows_driver(impl, reduction_type="SUM")
    rows = [0, 2**31 - 1, 2**31, 2**62, INT64_MAX]
    assert_rows(taken(acc, gradients), rows, [1.0, 10.0, 2.0, 23.0, 30.0])


SHAPES = {
    "unknown": (None, [-1, 2]),
    "scalar": ([], [-1, 2]),
    "open": ([None, 2], [-1, 2]),
    "wider_open": ([None, None], [-1, 2]),
    "rows_known": ([9, None], [9, 2]),
    "known": ([9, 2], [9, 2]),
}


def test_number_of_rows_is_minus_one_unless_the_constructor_knew_it(impl, rows_driver):
    for shape, expected in SHAPES.values():
        acc = rows_driver(impl, shape=shape)
        for step, grad_shape in enumerate((None, [9, 2])):
            gradients = [Rows([1], [[2.0, 4.0]], grad_shape), Rows([8], [[6.0, 8.0]], grad_shape)]
            assert_rows(taken(acc, gradients, step), [1, 8], [[2.0, 4.0], [6.0, 8.0]], expected)


def test_try_take_of_too_few_gradients_returns_no_rows(ours, rows_driver):
    for shape, width, expected in ((None, (), [-1]), ([5, 2, None], (2, 0), [5, 2, 0])):
        acc = rows_driver(ours, shape=shape)
        taken, rows = acc.try_take(1)
        assert taken is False
        assert_rows(rows, [], np.ones([0, *width]), expected)
