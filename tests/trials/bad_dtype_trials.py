"""Trials: gradients and takes of another dtype or shape, through raw ops and shared names."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from accumulator_support import EagerDriver, GraphDriver
from trial_runs import refused, run_trials

tf1 = tf.compat.v1
BadArgument = (tf.errors.InvalidArgumentError, ValueError, TypeError)
NAMES = {tf.float64: "double|float64", tf.float16: "half|float16"}
NAMES |= {tf.int32: "int32", tf.bfloat16: "bfloat16"}
Gone = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError)


def unharmed(acc: Any, count: int = 1) -> None:
    """The accumulator still has `count` gradients [4, 8] of step 0 and works."""
    assert acc.count() == count
    assert acc.step() == 0 and acc.dropped() == 0
    acc.apply([4.0, 8.0])
    np.testing.assert_array_equal(acc.take(count + 1), [4.0, 8.0])


def apply_of_another_dtype(impl: Any, dtype: Any, filled: bool) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    if filled:
        acc.apply([4.0, 8.0])
    handle = acc.accumulator.accumulator_ref
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_apply(handle, tf.constant(0, tf.int64), tf.cast([1, 2], dtype))
    unharmed(acc, int(filled))


def apply_of_another_dtype_in_a_graph(impl: Any) -> None:
    acc = GraphDriver(impl, tf.float32, [2], name="floats")
    acc.apply([4.0, 8.0])
    with acc.graph.as_default():
        handle = tf1.placeholder_with_default(acc.accumulator.accumulator_ref, None)
        apply = impl.raw_apply(handle, tf.constant(0, tf.int64), tf.ones([2], tf.float64))
    with refused(BadArgument, "floats", "float", "double|float64"):
        acc.session.run(apply)
    unharmed(acc)


def contribution_of_another_dtype(impl: Any, dtype: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    handle = acc.accumulator.accumulator_ref
    numbers = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_contribute(handle, tf.cast([1, 2], dtype), *numbers)
    with refused(BadArgument, "float", NAMES[dtype]):
        impl.raw_take_round(handle, numbers[0], tf.constant(1), dtype)
    unharmed(acc)


def take_of_another_dtype(impl: Any, dtype: Any, ready: bool, raw_take: str) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    if ready:
        acc.apply([4.0, 8.0])
    handle = acc.accumulator.accumulator_ref
    with refused(BadArgument, "float", NAMES[dtype]):
        getattr(impl, raw_take)(handle, tf.constant(1), dtype)
    unharmed(acc, int(ready))


def clash_through_a_shared_name(impl: Any) -> None:
    acc = GraphDriver(impl, tf.float32, [2], shared_name="clash", name="floats")
    acc.apply([4.0, 8.0])
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
        with refused(tf.errors.InvalidArgumentError, "clash", "float", "double|float64"):
            acc.session.run(use)
    unharmed(acc)


def wrong_shape_through_the_raw_op(impl: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    handle = acc.accumulator.accumulator_ref
    bad = ([3], [2, 1], [1, 2]) if impl.kind == "sparse" else ([3], [], [2, 1], [1, 2], [0])
    message = r"Shape mismatch" if impl.kind == "sparse" else r"Shape mismatch: expected \[2\], got"
    for shape in bad:
        with refused(tf.errors.InvalidArgumentError, message):
            impl.raw_apply(handle, tf.constant(0, tf.int64), tf.ones(shape))
    unharmed(acc)


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


TRIALS = {
    f.__name__: f
    for f in (
        apply_of_another_dtype_in_a_graph,
        clash_through_a_shared_name,
        wrong_shape_through_the_raw_op,
        impossible_creations_through_the_raw_op,
    )
}
for _dtype in (tf.float64, tf.float16, tf.int32, tf.bfloat16):
    TRIALS[f"contribution_of_{_dtype.name}"] = lambda impl, d=_dtype: contribution_of_another_dtype(
        impl, d
    )
    for _full in (False, True):
        _suffix = f"{_dtype.name}-{'filled' if _full else 'empty'}"
        TRIALS[f"apply_of_{_suffix}"] = lambda impl, d=_dtype, f=_full: apply_of_another_dtype(
            impl, d, f
        )
        for _raw in ("raw_take", "raw_try_take"):
            TRIALS[f"{_raw}_of_{_suffix}"] = lambda impl, d=_dtype, f=_full, r=_raw: (
                take_of_another_dtype(impl, d, f, r)
            )

if __name__ == "__main__":
    run_trials(TRIALS)
