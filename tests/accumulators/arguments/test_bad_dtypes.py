"""Tests of gradients and takes of another dtype or shape, through raw ops and shared names.

TensorFlow's own accumulator aborts the process on some of this input.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver, every_kind
from tests.support.refusals import (
    BadArgument,
    InvalidArgument,
    assert_unharmed,
    refused,
    with_gradients,
)

v1 = tf.compat.v1
pytestmark = every_kind
NAMES = {tf.float64: "double|float64", tf.float16: "half|float16"}
NAMES |= {tf.int32: "int32", tf.bfloat16: "bfloat16"}


def floats(impl: Any, count: int) -> tuple[Any, Any]:
    """Returns an eager accumulator of float32 with or without one gradient, and its handle."""
    acc = with_gradients(count, EagerDriver, impl)
    return acc, acc.accumulator.accumulator_ref


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("count", [0, 1])
def test_apply_of_another_dtype_is_refused(ours, dtype, count):
    acc, handle = floats(ours, count)
    with refused(BadArgument, "float", NAMES[dtype]):
        ours.raw_apply(handle, tf.constant(0, tf.int64), tf.cast([1, 2], dtype))
    assert_unharmed(acc, count)


def test_apply_of_another_dtype_in_a_graph_is_refused(ours):
    acc = with_gradients(1, GraphDriver, ours, name="floats")
    with acc.graph.as_default():
        handle = v1.placeholder_with_default(acc.accumulator.accumulator_ref, None)
        apply = ours.raw_apply(handle, tf.constant(0, tf.int64), tf.ones([2], tf.float64))
    with refused(BadArgument, "floats", "float", "double|float64"):
        acc.session.run(apply)
    assert_unharmed(acc)


@pytest.mark.parametrize("dtype", NAMES)
def test_contribution_of_another_dtype_is_refused(ours, dtype):
    acc, handle = floats(ours, 1)
    numbers = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    with refused(BadArgument, "float", NAMES[dtype]):
        ours.raw_contribute(handle, tf.cast([1, 2], dtype), *numbers)
    with refused(BadArgument, "float", NAMES[dtype]):
        ours.raw_take_round(handle, numbers[0], tf.constant(1), dtype)
    assert_unharmed(acc)


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("raw_take", ["raw_take", "raw_try_take"])
def test_take_of_another_dtype_is_refused(ours, dtype, count, raw_take):
    acc, handle = floats(ours, count)
    with refused(BadArgument, "float", NAMES[dtype]):
        getattr(ours, raw_take)(handle, tf.constant(1), dtype)
    assert_unharmed(acc, count)


def test_clash_through_a_shared_name_is_refused(ours):
    acc = with_gradients(1, GraphDriver, ours, shared_name="clash", name="floats")
    with acc.graph.as_default():
        other = ours.dense(tf.float64, [2], shared_name="clash", name="doubles")
        uses = [
            other.apply_grad([1.0, 2.0]),
            other.take_grad(1),
            other.num_accumulated(),
            other.try_take_grad(1)[0],
            other.set_global_step(5),
        ]
    for use in uses:
        with refused(InvalidArgument, "clash", "float", "double|float64"):
            acc.session.run(use)
    assert_unharmed(acc)


def test_wrong_shape_through_the_raw_op_is_refused(ours):
    acc, handle = floats(ours, 1)
    bad = ([3], [2, 1], [1, 2]) if ours.kind == "sparse" else ([3], [], [2, 1], [1, 2], [0])
    message = r"Shape mismatch" if ours.kind == "sparse" else r"Shape mismatch: expected \[2\], got"
    for shape in bad:
        with refused(InvalidArgument, message):
            ours.raw_apply(handle, tf.constant(0, tf.int64), tf.ones(shape))
    assert_unharmed(acc)


def test_impossible_creations_through_the_raw_op_are_refused(ours):
    make = ours.raw_make
    base = dict(container="", shared_name="", anonymous=False)
    with refused(BadArgument, "(?s)MEAN.*int|int.*MEAN"):
        handle = make(dtype=tf.int32, shape=[2], reduction_type="MEAN", **base)
        ours.raw_num_accumulated(handle)
    for shape, text in (
        ([2**32, 2**32], "too large"),
        ([1] * 255, "too many dimensions|over the limit of 254"),
    ):
        with refused(BadArgument, text):
            handle = make(dtype=tf.float32, shape=shape, reduction_type="SUM", **base)
            ours.raw_num_accumulated(handle)
    with refused(BadArgument):
        make(dtype=tf.bool, shape=[2], reduction_type="SUM", **base)
