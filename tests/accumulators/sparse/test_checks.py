"""Tests of sparse gradients that do not fit: each is refused, and the accumulator is as it was.

TensorFlow's own accumulator aborts the process on some of them when they reach its operations.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import Calls, RawCalls, SessionCalls
from tests.accumulators.support.rows import Rows, assert_rows, take_refuses_rows
from tests.support.refusals import InvalidArgument, noting, refused

pytestmark = pytest.mark.kinds("sparse")
INT32_MAX = 2**31 - 1


class RawInt32Calls(RawCalls):
    """Calls of the operations with row numbers of type int32."""

    def _run(self, name: str, gradient: Any, scalars: Any) -> Any:
        if gradient:
            gradient = [tf.cast(gradient[0], tf.int32), *gradient[1:]]
        return super()._run(name, gradient, scalars)


def rows(indices: Any, *shape: int, of: Any = None) -> Rows:
    """Returns a gradient of these row numbers, whose values are ones of this shape."""
    return Rows(indices, np.ones(shape, np.float32), of)


def dim(which: str, number: int, size: int, got: int) -> str:
    return f"Shape mismatch: expected {which} dim {number} to be {size}, got {got}"


def too_high(slice_: int, index: int, limit: int) -> str:
    at = f"index of slice {slice_} exceeded limits of shape; index is {index} exceeded {limit}"
    return f"Shape mismatch: {at}"


VECTOR = "Input indices should be vector but received shape: "
# Each case has the constructor's shape, a gradient that is accumulated already, the refused
# gradient, and words of the error.
Case = tuple[Any, Rows | None, Rows, str]
REFUSED: dict[str, Case] = {
    "indices of rank 2": (None, None, rows([[0], [1]], 2, 2), VECTOR + "[2,1]"),
    "scalar index": (None, None, rows(3, 1, 2), VECTOR + "[]"),
    "scalar values": (None, None, rows([1]), "Values cannot be 0-dimensional."),
    "too few values": (None, None, rows([1, 2], 1, 2), "Expected 2 non-empty input values, got 1"),
    "too many values": (None, None, rows([1], 3, 2), "Expected 1 non-empty input values, got 3"),
    "no values": (None, None, rows([1], 0, 2), "Expected 1 non-empty input values, got 0"),
    "no indices": (None, None, rows([], 2, 2), "Expected 0 non-empty input values, got 2"),
    "low rank": ([3, 2, 2], None, rows([1], 1, 2, 2, of=[3, 2]), "shape rank at least 3, got 2"),
    "shape of another width": ([3, 2], None, rows([1], 1, 2, of=[3, 3]), dim("shape", 1, 2, 3)),
    "shape of other rows": ([3, 2], None, rows([1], 1, 2, of=[4, 2]), dim("shape", 0, 3, 4)),
    "row too high": ([3, 2], None, rows([3], 1, 2), too_high(0, 3, 3)),
    "later row too high": ([3, None], None, rows([0, 2, 7, 9], 4, 2), too_high(2, 7, 3)),
    "another rank later": (None, rows([1], 1, 2, 2, 2), rows([1], 1, 2, 2), "values rank 4, got 3"),
    "another width later": (
        None,
        rows([1], 1, 2, 2, 2),
        rows([1], 1, 2, 2, 3),
        dim("values", 3, 2, 3),
    ),
    "other width than no rows": (None, rows([], 0, 2), rows([1], 1, 3), dim("values", 1, 2, 3)),
    "low rank of values": (
        [3, 2, 2],
        None,
        rows([1], 1, 2),
        "expected values rank at least 3, got 2",
    ),
    "another width": ([3, 2], None, rows([1], 1, 3), dim("values", 1, 2, 3)),
    "another width of no rows": ([3, 2], None, rows([], 0, 3), dim("values", 1, 2, 3)),
}
# The original accepts these gradients, and ours refuses them. Only our messages have the last part.
OURS_ONLY: dict[str, Case] = {
    "negative row": (None, None, rows([0, -1], 2, 2), "index of slice 1 is negative; index is -1"),
    "negative row of known rows": ([3, 2], None, rows([-4], 1, 2), "index is -4"),
    "most negative row": (None, None, rows([-(2**63)], 1), f"index is {-(2**63)}"),
    "row beyond its shape": (None, None, rows([2, 3], 2, 2, of=[3, 2]), too_high(1, 3, 3)),
    "huge row beyond its shape": (
        [None, 2],
        None,
        rows([2**62], 1, 2, of=[3, 2]),
        too_high(0, 2**62, 3),
    ),
    "row of no rows": (None, None, rows([0], 1, 2, of=[0, 2]), too_high(0, 0, 0)),
}
BAD_ROWS = {"row too high", "later row too high", *OURS_ONLY}
# Both libraries accept these. Each case has the constructor's shape, the gradients, and the
# resulting shape. Each gradient has the row 1, and its values are ones.
ACCEPTED: dict[str, tuple[Any, list[Rows], list[int]]] = {
    "values of higher rank": ([2, None], [rows([1], 1, 2, 2, 2)], [2, 2, 2, 2]),
    "values of rank 2 for a vector": ([3], [rows([1], 1, 5)], [3, 5]),
    "higher rank twice": ([3, 2], [rows([1], 1, 2, 4)] * 2, [3, 2, 4]),
    "high rank with shape": ([2, None], [rows([1], 1, 2, 2, 2, of=[2, 2, 2, 2])], [2, 2, 2, 2]),
    "shape of two widths": (None, [rows([1], 1, 2, of=[3, 4])], [-1, 2]),
    "shape of higher rank": ([3, 2], [rows([1], 1, 2, of=[3, 2, 5])], [3, 2]),
    "shape of the rows alone": (None, [rows([1], 1, 2, of=[3])], [-1, 2]),
    "negative width in the shape": (None, [rows([1], 1, 2, of=[3, -2])], [-1, 2]),
    "unknown rows in the shape": (None, [rows([1], 1, 2, of=[-1, 2])], [-1, 2]),
    "overflowing shape": (None, [rows([1], 1, 2, of=[2**62, 2**62])], [-1, 2]),
    "shape of very many dims": (None, [rows([1], 1, 2, of=[2] * 5000)], [-1, 2]),
    "shape that is a scalar": (None, [rows([1], 1, 2, of=3)], [-1, 2]),
    "shape that is a matrix": ([3, 2], [rows([1], 1, 2, of=[[3, 2]])], [3, 2]),
    "shapes of different rows": (None, [rows([1], 1, 2, of=[n, 2]) for n in (3, 9)], [-1, 2]),
    "highest row": ([2, 2], [rows([1], 1, 2, of=[2, 2])], [2, 2]),
}


def check(impl: Any, mode: type[Calls], name: str, case: Case) -> None:
    shape, before, gradient, words = case
    width = [2] if shape is None else shape[1:]
    fitting = rows([0], 1, *[dim or 2 for dim in width])
    for first in [before] if before else [None, fitting]:
        acc = mode(impl, tf.float32, shape, rows=True, name="embedding_grads")
        if first:
            acc.apply(first)
        # The width of the accumulated gradient is checked before the row numbers.
        or_else = "|Shape mismatch: expected values (rank|dim)" if first is fitting else ""
        shown = "embedding_grads" if mode is SessionCalls and impl.ours else ""
        with noting((mode, first)), refused(InvalidArgument, re.escape(words) + or_else, shown):
            acc.apply(gradient)
            if name in BAD_ROWS and take_refuses_rows(impl):
                acc.take(acc.count())
        step = acc.step() if name in BAD_ROWS and take_refuses_rows(impl) else 0
        if step and first:  # The take has discarded the round.
            acc.apply(first, step)
        assert acc.state() == ((int(bool(first)), step, 0) if impl.ours else (int(bool(first)),))
        if first:
            acc.apply(first, step)
            assert_rows(acc.take(2), first.indices, first.values)
        acc.close()


@pytest.mark.parametrize("case", REFUSED)
def test_a_gradient_that_does_not_fit_is_refused_and_nothing_changes(impl, case):
    check(impl, SessionCalls, case, REFUSED[case])


@pytest.mark.parametrize("case", [*REFUSED, *OURS_ONLY])
def test_it_is_refused_in_each_mode(ours, case):
    modes = [Calls, RawCalls, *([SessionCalls] if case in OURS_ONLY else [])]
    numbers = np.asarray((REFUSED | OURS_ONLY)[case][2].indices, np.float64)
    for mode in modes + [RawInt32Calls] * bool(np.all(np.abs(numbers) <= INT32_MAX)):
        check(ours, mode, case, (REFUSED | OURS_ONLY)[case])


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_gradient_that_the_original_accepts_is_accepted(impl, rows_driver, case):
    shape, gradients, dense_shape = ACCEPTED[case]
    acc = rows_driver(impl, shape=shape)
    for gradient in gradients:
        acc.apply(gradient)
    assert acc.count() == len(gradients)
    assert_rows(acc.take(1), [1], gradients[0].values, dense_shape)


def test_checks_come_in_the_order_of_the_original(impl, rows_driver):
    """The gradient has every fault at once, and the faults are mended one after another."""
    acc = rows_driver(impl, shape=[3, 2])
    for gradient, message in [
        (rows([[7, 8]], of=[1]), "Input indices should be vector"),
        (rows([7, 8], of=[1]), "Values cannot be 0-dimensional"),
        (rows([7, 8], 1, of=[1]), "non-empty input values, got 1"),
        (rows([7, 8], 2, of=[1]), "expected shape rank at least 2, got 1"),
        (rows([7, 8], 2, 3, of=[3, 3]), dim("shape", 1, 2, 3)),
    ]:
        with refused(InvalidArgument, message):
            acc.apply(gradient)
    acc.apply(rows([1, 2], 2, 2, of=[3, 2]))
    assert acc.count() == 1


def test_a_stale_gradient_is_dropped_whatever_is_wrong_with_it(impl, rows_driver):
    for name, (shape, _, gradient, _) in (REFUSED | OURS_ONLY).items():
        acc = rows_driver(impl, shape=shape)
        acc.set_step(1)
        with noting(name):
            acc.apply(gradient, 0)
            assert acc.state() == ((0, 1, 1) if impl.ours else (0,))


def test_a_gradient_that_was_refused_binds_no_width(impl, rows_driver):
    acc = rows_driver(impl)
    with pytest.raises(InvalidArgument):
        acc.apply(rows([1, 2], 1, 2))
    acc.apply(rows([1], 1, 5))
    assert_rows(acc.take(1), [1], np.ones([1, 5]))


def test_the_rank_of_the_first_gradient_binds_the_others_until_the_take(impl, rows_driver):
    acc = rows_driver(impl, shape=[3, 2])
    for step, width in enumerate([(2, 4), (2,), (2, 3, 1)]):
        acc.apply(rows([1], 1, *width), step)
        with pytest.raises(InvalidArgument, match="expected values rank"):
            acc.apply(rows([1], 1, 2, 7, 7, 7), step)
        assert_rows(acc.take(1), [1], np.ones([1, *width]), [3, *width])


def test_the_original_accepts_negative_rows(original, rows_driver):
    acc = rows_driver(original, shape=[3, 2])
    acc.apply(rows([-1], 1, 2))
    assert_rows(acc.take(1), [-1], np.ones([1, 2]))


def test_the_shape_of_a_gradient_bounds_its_own_rows_only(ours, rows_driver):
    acc = rows_driver(ours, reduction_type="SUM")
    for gradient in (rows([2], 1, 2, of=[3, 2]), rows([9], 1, 2, of=[10, 2]), rows([99], 1, 2)):
        acc.apply(gradient)
    assert_rows(acc.take(3), [2, 9, 99], np.ones([3, 2]), [-1, 2])


def test_the_highest_row_number_is_accepted(impl, rows_driver):
    acc = rows_driver(impl)
    acc.apply(rows([2**63 - 2], 1, of=[2**63 - 1]))
    assert_rows(acc.take(1), [2**63 - 2], np.ones(1), [-1])


def test_rows_whose_width_overflows_when_multiplied_are_refused(ours):
    """There are no rows and so no elements, but no row could have this width."""
    acc = ours.sparse(tf.float32, reduction_type="GLOBAL_MEAN")
    for width in ([2**40, 2**40], [2**31, 2**32], [2**61], [2**20, 2**20, 2**20, 2**20]):
        with refused(InvalidArgument, r"Shape mismatch: expected rows of at most 2\*\*40 elements"):
            acc.apply_grad(tf.zeros([0], tf.int64), tf.zeros([0, *width]))
    assert int(acc.num_accumulated()) == 0
    for _ in range(20):
        acc.apply_grad(tf.zeros([0], tf.int64), tf.zeros([0, 2**20, 2**20]))
    with refused(InvalidArgument, "Shape mismatch: expected values dim 1"):
        acc.apply_grad([1], tf.ones([1, 2, 2]))
    taken = acc.take_grad(20)
    assert taken.values.shape.as_list() == [0, 2**20, 2**20]
    assert taken.shape.numpy().tolist() == [-1, 2**20, 2**20]


def test_applies_that_fail_do_not_disturb_a_waiting_take(ours):
    # On a GPU, ops are functions in eager mode, and TensorFlow aborts all of them if one fails.
    mode = SessionCalls if take_refuses_rows(ours) else Calls
    acc = mode(ours, tf.float32, [3, 2], rows=True)
    waiting = acc.start_take(2)
    for bad in (rows([1], 1, 3), rows([1], 2, 2)):
        for _ in range(3):
            with pytest.raises(InvalidArgument):
                acc.apply(bad)
        acc.apply(Rows([1], [[4.0, 8.0]]))
    assert_rows(waiting.result(), [1], [[4.0, 8.0]])


def test_a_shape_of_any_size_is_checked(ours):
    acc = Calls(ours, tf.float32, [1, 1], rows=True)
    with refused(InvalidArgument, "expected shape rank at least 2, got 1"):
        acc.apply(rows([0], 1, 1, 1, 1, of=[1]))
    sizes = (2, 3, 253, 254, 255, 256, 1000, 100_000)
    for size in sizes:
        acc.apply(rows([0], 1, 1, 1, 1, of=[1] * size))
    assert acc.count() == len(sizes)


@pytest.mark.parametrize("indices", [["a", "b"], [[0], [1, 2]], None], ids=repr)
def test_row_numbers_that_are_no_numbers_are_refused(ours, indices):
    acc = ours.sparse(tf.float32)
    with pytest.raises((TypeError, ValueError, tf.errors.UnimplementedError)):
        acc.apply_grad(indices, tf.ones([2, 2]))
    assert int(acc.num_accumulated()) == 0
