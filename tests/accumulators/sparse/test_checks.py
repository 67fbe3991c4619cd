"""Tests of the checks of a sparse gradient when the operation runs, and of their messages."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.rows import Rows, assert_rows
from tests.accumulators.support.sparse_refusals import (
    ACCEPTED,
    OURS_ONLY,
    REFUSED,
    ones,
    take_refuses_rows,
)

pytestmark = pytest.mark.kinds("sparse")

InvalidArgument = tf.errors.InvalidArgumentError


def assert_refused(acc, case, before, rows, message, apply="apply"):
    if before is not None:
        acc.apply(before)
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        getattr(acc, apply)(rows)
        if take_refuses_rows(acc.impl, case):
            acc.take(acc.count())
    if is_lost := take_refuses_rows(acc.impl, case) and acc.step() == 1:
        assert acc.count() == 0  # The take has discarded the round.
        if before is not None:
            acc.apply(before, 1)
    assert acc.count() == int(before is not None)
    if acc.impl.ours:
        assert (acc.step(), acc.dropped()) == (int(is_lost), 0)
    if before is not None:
        assert_rows(acc.take(1), before.indices, before.values)


@pytest.mark.parametrize("case", REFUSED)
def test_gradient_that_does_not_fit_is_refused_and_nothing_changes(impl, rows_driver, case):
    shape, before, rows, message = REFUSED[case]
    assert_refused(rows_driver(impl, shape=shape), case, before, rows, message)


@pytest.mark.parametrize("case", REFUSED)
def test_try_apply_refuses_what_apply_refuses(ours, rows_driver, case):
    shape, before, rows, message = REFUSED[case]
    assert_refused(rows_driver(ours, shape=shape), case, before, rows, message, "try_apply")


def test_checks_come_in_the_order_of_the_original(impl, rows_driver):
    """The gradient has every fault at once, and the faults are mended one after another."""
    acc = rows_driver(impl, shape=[3, 2])
    faulty = [
        (Rows([[7, 8]], 1.0, [1]), "Input indices should be vector"),
        (Rows([7, 8], 1.0, [1]), "Values cannot be 0-dimensional"),
        (Rows([7, 8], ones(1), [1]), "non-empty input values, got 1"),
        (Rows([7, 8], ones(2), [1]), "expected shape rank at least 2, got 1"),
        (Rows([7, 8], ones(2, 3), [3, 3]), "expected shape dim 1 to be 2, got 3"),
    ]
    for rows, message in faulty:
        with pytest.raises(InvalidArgument, match=message):
            acc.apply(rows)
    acc.apply(Rows([1, 2], ones(2, 2), [3, 2]))
    assert acc.count() == 1


@pytest.mark.parametrize("case", REFUSED)
def test_stale_gradient_is_dropped_whatever_is_wrong_with_it(impl, rows_driver, case):
    shape, _, rows, _ = REFUSED[case]
    acc = rows_driver(impl, shape=shape)
    acc.set_step(1)
    acc.apply(rows, 0)
    assert acc.count() == 0
    if impl.ours:
        assert acc.try_apply(Rows([-1, 2**62], ones(2, 9), [-5]), 0) is False
        assert acc.dropped() == 2


def test_negative_row_of_a_stale_gradient_is_not_looked_at(impl, rows_driver):
    acc = rows_driver(impl)
    acc.set_step(1)
    acc.apply(Rows([-1], ones(1, 2)), 0)
    assert acc.count() == 0


def test_failed_gradient_pins_nothing(impl, rows_driver):
    acc = rows_driver(impl)
    with pytest.raises(InvalidArgument):
        acc.apply(Rows([1, 2], ones(1, 2)))
    acc.apply(Rows([1], ones(1, 5)))
    assert_rows(acc.take(1), [1], ones(1, 5))


@pytest.mark.parametrize("case", OURS_ONLY)
def test_gradient_that_makes_no_sense_is_refused_and_nothing_changes(ours, rows_driver, case):
    shape, rows, message = OURS_ONLY[case]
    assert_refused(rows_driver(ours, shape=shape), case, None, rows, message)
    fitting = ones(1, *np.shape(rows.values)[1:]) if shape is None else ones(1, *shape[1:])
    assert_refused(rows_driver(ours, shape=shape), case, Rows([2], fitting), rows, message)


@pytest.mark.parametrize("case", ACCEPTED)
def test_gradient_that_the_original_accepts_is_accepted(impl, rows_driver, case):
    shape, gradients, dense_shape = ACCEPTED[case]
    acc = rows_driver(impl, shape=shape)
    for rows in gradients:
        acc.apply(rows)
    assert acc.count() == len(gradients)
    assert_rows(acc.take(1), [1], gradients[0].values, dense_shape)


def test_rank_of_the_first_gradient_binds_the_others_until_the_take(impl, rows_driver):
    acc = rows_driver(impl, shape=[3, 2])
    for step, values in enumerate([ones(1, 2, 4), ones(1, 2), ones(1, 2, 3, 1)]):
        acc.apply(Rows([1], values), step)
        with pytest.raises(InvalidArgument, match="expected values rank"):
            acc.apply(Rows([1], ones(1, 2, 7, 7, 7)), step)
        assert_rows(acc.take(1), [1], values, [3, *values.shape[1:]])


def test_original_accepts_negative_rows(original, rows_driver):
    acc = rows_driver(original, shape=[3, 2])
    acc.apply(Rows([-1], ones(1, 2)))
    assert_rows(acc.take(1), [-1], ones(1, 2))


@pytest.mark.parametrize("case", ["scalar_values", "negative_row"])
def test_refusal_names_the_accumulator(ours, rows_graph_driver, case):
    rows = REFUSED[case][2] if case in REFUSED else OURS_ONLY[case][1]
    acc = rows_graph_driver(ours, shape=[3, 2], name="embedding_grads")
    with pytest.raises(InvalidArgument, match="embedding_grads"):
        acc.apply(rows)
        if take_refuses_rows(ours, case):
            acc.take(1)


def test_grad_shape_bounds_the_rows_of_its_own_gradient_only(ours, rows_driver):
    acc = rows_driver(ours, reduction_type="SUM")
    acc.apply(Rows([2], ones(1, 2), [3, 2]))
    acc.apply(Rows([9], ones(1, 2), [10, 2]))
    acc.apply(Rows([99], ones(1, 2)))
    assert_rows(acc.take(3), [2, 9, 99], ones(3, 2), [-1, 2])


def test_highest_rows_that_the_shapes_allow_are_accepted(impl, rows_driver):
    acc = rows_driver(impl, shape=[3, 2])
    acc.apply(Rows([2], ones(1, 2), [3, 2]))
    assert_rows(acc.take(1), [2], ones(1, 2), [3, 2])
    largest = rows_driver(impl)
    largest.apply(Rows([2**63 - 2], ones(1), [2**63 - 1]))
    assert_rows(largest.take(1), [2**63 - 2], ones(1), [-1])
