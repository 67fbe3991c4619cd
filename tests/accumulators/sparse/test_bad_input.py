"""Tests of sparse gradients of wrong shapes or rows, through raw ops and ops of the dense kind.

TensorFlow's own accumulator aborts the process on some of these inputs.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.rows import Rows, RowsEagerDriver, assert_rows
from tests.accumulators.support.sparse_refusals import OURS_ONLY, REFUSED, take_refuses_rows
from tests.support.accumulator_support import EagerDriver, GraphDriver, unique_name
from tests.support.refusals import InvalidArgument, refused

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")
INT32_MAX = 2**31 - 1


class RawRowsDriver(RowsEagerDriver):
    """A driver that calls the raw ops."""

    def apply(self, value: Rows, step: Any = 0) -> Any:
        indices, values, shape = self._parts(value)
        return self.impl.raw_apply_rows(
            self.accumulator.accumulator_ref,
            tf.constant(step, tf.int64),
            indices,
            values,
            tf.constant([] if shape is None else shape, tf.int64),
        )


class RawInt32RowsDriver(RawRowsDriver):
    indices_dtype = tf.int32


class FunctionRowsDriver(RowsEagerDriver):
    """A driver that calls a tf.function whose arguments have unknown shapes."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        dtypes = (tf.int64, self.dtype, tf.int64, tf.int64)
        acc = self.accumulator

        @tf.function(input_signature=[tf.TensorSpec(None, dtype) for dtype in dtypes])
        def apply(*parts: tf.Tensor) -> None:
            acc.apply_grad(*parts)

        self._apply = apply

    def apply(self, value: Rows, step: Any = 0) -> None:
        indices, values, shape = self._parts(value)
        shape = tf.constant([] if shape is None else shape, tf.int64)
        self._apply(indices, values, shape, tf.constant(step, tf.int64))


DRIVERS = {"raw": RawRowsDriver, "raw_int32": RawInt32RowsDriver, "function": FunctionRowsDriver}
CASES = {
    name: (shape, rows, words) for name, (shape, _, rows, words) in REFUSED.items()
} | OURS_ONLY


def fits_int32(case: str) -> bool:
    rows = CASES[case][1]
    return bool(np.all(np.abs(np.asarray(rows.indices, np.float64)) <= INT32_MAX))


@pytest.mark.narrow(
    to=lambda case, driver: driver == "raw" or case in ("no_values", "negative_row")
)
@pytest.mark.parametrize(
    "case, driver",
    [
        *itertools.product(CASES, ["raw", "function"]),
        *((case, "raw_int32") for case in CASES if fits_int32(case)),
    ],
)
def test_gradient_is_refused(ours, case, driver):
    shape, rows, words = CASES[case]
    if case.startswith("other_"):  # These gradients differ from the accumulated one.
        first = Rows([1], np.ones([1, 2, 2, 2]))
    else:
        width = [2] if shape is None else shape[1:]
        first = Rows([0], np.full([1, *[d or 2 for d in width]], 4.0))
    for filled in (True,) if case.startswith("other_") else (False, True):
        acc = DRIVERS[driver](ours, tf.float32, shape)
        if filled:
            acc.apply(first)
        # The width of the accumulated gradient is checked before the row numbers.
        or_else = "|Shape mismatch: expected values (rank|dim)" if filled else ""
        with refused(InvalidArgument, re.escape(words) + or_else):
            acc.apply(rows)
            if take_refuses_rows(ours, case):
                acc.take(acc.count())
        if is_lost := take_refuses_rows(ours, case) and acc.step() == 1:
            assert acc.count() == 0  # The take has discarded the round.
            if filled:
                acc.apply(first, 1)
        assert (acc.count(), acc.step(), acc.dropped()) == (int(filled), int(is_lost), 0)
        if filled:
            acc.apply(first, int(is_lost))
            assert_rows(acc.take(2), first.indices, first.values)


def test_dense_ops_refuse_a_sparse_accumulator(ours):
    acc = RowsEagerDriver(ours, tf.float32, [3, 2])
    acc.apply(Rows([1], [[4.0, 8.0]]))
    handle, one = acc.accumulator.accumulator_ref, tf.constant(1)
    uses = (
        lambda: ours.ops.condacc_dense_apply(
            handle, tf.constant(0, tf.int64), tf.ones([3, 2]), [], []
        ),
        lambda: ours.ops.condacc_dense_take(handle, one, dtype=tf.float32),
        lambda: ours.ops.condacc_dense_try_take(handle, one, [], dtype=tf.float32),
    )
    for use in uses:
        with refused(InvalidArgument, "dense", "sparse"):
            use()
    assert (acc.count(), acc.step(), acc.dropped()) == (1, 0, 0)
    assert_rows(acc.take(1), [1], [[4.0, 8.0]], [3, 2])


def test_sparse_ops_refuse_a_dense_accumulator(ours):
    acc = ours.module.ConditionalAccumulator(tf.float32, [3, 2])
    acc.apply_grad(tf.ones([3, 2]))
    handle, one, zero = acc.accumulator_ref, tf.constant(1), tf.constant(0, tf.int64)
    nothing = tf.zeros([0], tf.int64)
    uses = (
        lambda: ours.raw_apply_rows(handle, zero, tf.constant([1]), tf.ones([1, 2]), nothing),
        lambda: ours.raw_take(handle, one, tf.float32),
        lambda: ours.raw_try_take(handle, one, tf.float32),
    )
    for use in uses:
        with refused(InvalidArgument, "dense", "sparse"):
            use()
    assert (int(acc.num_accumulated()), int(acc.global_step())) == (1, 0)
    np.testing.assert_array_equal(acc.take_grad(1), np.ones([3, 2]))


def test_kinds_clash_over_a_shared_name_in_a_graph(ours):
    acc = GraphDriver(ours, tf.float32, [2], shared_name="clash")
    acc.apply([4.0, 8.0])
    with acc.graph.as_default():
        other = ours.module.ConditionalAccumulator(tf.float32, [2], shared_name="clash")
        uses = [
            other.apply_grad([1.0, 2.0]),
            other.take_grad(1),
            other.num_accumulated(),
            other.set_global_step(5),
        ]
    for use in uses:
        with refused(InvalidArgument, "clash", "dense", "sparse"):
            acc.session.run(use)
    assert (acc.count(), acc.step()) == (1, 0)
    np.testing.assert_array_equal(acc.take(1), [4.0, 8.0])


def test_handle_of_the_original_is_refused_in_a_graph(ours):
    with tf.Graph().as_default():
        theirs = v1.SparseConditionalAccumulator(tf.float32)
        zero, nothing = tf.constant(0, tf.int64), tf.zeros([0], tf.int64)
        with refused((TypeError, ValueError), "(?s)handle.*resource"):
            ours.raw_apply_rows(
                theirs.accumulator_ref, zero, tf.constant([1]), tf.ones([1, 2]), nothing
            )


def test_numpys_default_dtype_is_converted_by_the_class(ours):
    """Applies float64 arrays, with which the original aborts the process."""
    acc = RowsEagerDriver(ours, tf.float32)
    for values in (np.array([[1.0, 3.0]]), np.array([[1, 3]]), np.array([[1.0, 3.0]], np.float16)):
        acc.accumulator.apply_grad(np.array([7.0]), values)
    assert_rows(acc.take(3), [7], [[1.0, 3.0]])
    with tf.Graph().as_default(), v1.Session() as session:
        acc = ours.sparse(tf.float32)
        session.run(acc.apply_grad(np.array([7.0]), np.array([[1.0, 3.0]])))
        assert_rows(session.run(acc.take_grad(1)), [7], [[1.0, 3.0]])


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


def test_failing_applies_do_not_disturb_a_waiting_take(ours):
    acc = RowsEagerDriver(ours, tf.float32, [3, 2], shared_name=unique_name("waits"))
    waiting = acc.start_take(2)
    bad = [(Rows([-1], [[1.0, 1.0]]), "negative"), (Rows([3], [[1.0, 1.0]]), "exceeded")]
    if take_refuses_rows(ours):
        bad = [(Rows([1], [[1.0, 1.0, 1.0]]), "values dim 1 to be 2, got 3")] * 2
    for _ in range(3):
        with refused(InvalidArgument, bad[0][1]):
            acc.apply(bad[0][0])
    acc.apply(Rows([1], [[4.0, 8.0]]))
    with refused(InvalidArgument, bad[1][1]):
        acc.apply(bad[1][0])
    assert acc.count() == 1 and not waiting.done
    acc.apply(Rows([1], [[6.0, 8.0]]))
    assert_rows(waiting.result(), [1], [[5.0, 8.0]])


def test_grad_shape_of_every_size_is_checked(ours):
    acc = EagerDriver(ours, tf.float32, shape=[1, 1])
    rows, values = tf.constant([0], tf.int64), tf.ones([1, 1, 1, 1])
    with refused(InvalidArgument, "expected shape rank at least 2, got 1"):
        acc.accumulator._accumulator.apply_grad(rows, values, [1])
    sizes = (2, 3, 253, 254, 255, 256, 1000, 100_000)
    for size in sizes:
        acc.accumulator._accumulator.apply_grad(rows, values, [1] * size)
    assert acc.count() == len(sizes)
