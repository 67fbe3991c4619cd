"""Trials of gradients and takes of another dtype or shape, through raw ops and shared names."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver
from tests.support.refusals import (
    BadArgument,
    InvalidArgument,
    assert_unharmed,
    refused,
    with_gradients,
)
from tests.support.trial_runs import Trials

v1 = tf.compat.v1
NAMES = {tf.float64: "double|float64", tf.float16: "half|float16"}
NAMES |= {tf.int32: "int32", tf.bfloat16: "bfloat16"}
TRIALS = Trials()


def floats(impl: Any, count: int) -> tuple[Any, Any]:
    """Returns an eager accumulator of float32 with or without one gradient, and its handle."""
    acc = with_gradients(count, EagerDriver, impl)
    return acc, acc.accumulator.accumulator_ref


@TRIALS.add_each(dtype=NAMES, count=(0, 1))
def apply_of_another_dtype(impl: Any, dtype: tf.DType, count: int) -> None:
    acc, handle = floats(impl, count)
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_apply(handle, tf.constant(0, tf.int64), tf.cast([1, 2], dtype))
    assert_unharmed(acc, count)


@TRIALS.add
def apply_of_another_dtype_in_a_graph(impl: Any) -> None:
    acc = with_gradients(1, GraphDriver, impl, name="floats")
    with acc.graph.as_default():
        handle = v1.placeholder_with_default(acc.accumulator.accumulator_ref, None)
        apply = impl.raw_apply(handle, tf.constant(0, tf.int64), tf.ones([2], tf.float64))
    with refused(BadArgument, "floats", "float", "double|float64"):
        acc.session.run(apply)
    assert_unharmed(acc)


@TRIALS.add_each(dtype=NAMES)
def contribution_of_another_dtype(impl: Any, dtype: tf.DType) -> None:
    acc, handle = floats(impl, 1)
    numbers = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_contribute(handle, tf.cast([1, 2], dtype), *numbers)
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_take_round(handle, numbers[0], tf.constant(1), dtype)
    assert_unharmed(acc)


@TRIALS.add_each(dtype=NAMES, count=(0, 1), raw_take=("raw_take", "raw_try_take"))
def take_of_another_dtype(impl: Any, dtype: tf.DType, count: int, raw_take: str) -> None:
    acc, handle = floats(impl, count)
    with refused(BadArgument, "float", NAMES[dtype]):
        getattr(impl, raw_take)(handle, tf.constant(1), dtype)
    assert_unharmed(acc, count)


@TRIALS.add
def clash_through_a_shared_name(impl: Any) -> None:
    acc = with_gradients(1, GraphDriver, impl, shared_name="clash", name="floats")
    with acc.graph.as_default():
        other = impl.dense(tf.float64, [2], shared_name="clash", name="doubles")
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


@TRIALS.add
def wrong_shape_through_the_raw_op(impl: Any) -> None:
    acc, handle = floats(impl, 1)
    bad = ([3], [2, 1], [1, 2]) if impl.kind == "sparse" else ([3], [], [2, 1], [1, 2], [0])
    message = r"Shape mismatch" if impl.kind == "sparse" else r"Shape mismatch: expected \[2\], got"
    for shape in bad:
        with refused(InvalidArgument, message):
            impl.raw_apply(handle, tf.constant(0, tf.int64), tf.ones(shape))
    assert_unharmed(acc)


@TRIALS.add
def impossible_creations_through_the_raw_op(impl: Any) -> None:
    make = impl.raw_make
    base = dict(container="", shared_name="", anonymous=False)
    with refused(BadArgument, "(?s)MEAN.*int|int.*MEAN"):
        handle = make(dtype=tf.int32, shape=[2], reduction_type="MEAN", **base)
        impl.raw_num_accumulated(handle)
    for shape, text in (
        ([2**32, 2**32], "too large"),
        ([1] * 255, "too many dimensions|over the limit of 254"),
    ):
        with refused(BadArgument, text):
            handle = make(dtype=tf.float32, shape=shape, reduction_type="SUM", **base)
            impl.raw_num_accumulated(handle)
    with refused(BadArgument):
        make(dtype=tf.bool, shape=[2], reduction_type="SUM", **base)
