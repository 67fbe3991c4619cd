"""Tests of handles: of other resources, of other dtypes and kinds, and of what is destroyed."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import CALLS, Calls, SessionCalls, raw
from tests.support.accumulator_support import every_kind, unique_name
from tests.support.refusals import BadArgument, Gone, InvalidArgument, noting, refused
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind
NAMES = {tf.float64: "double|float64", tf.float16: "half|float16"}
NAMES |= {tf.int32: "int32", tf.bfloat16: "bfloat16"}
SCALARS = {"step": 1, "contributor": 0, "required": 1, "weight": 2.0}
USES = {
    **dict.fromkeys(["apply", "try_apply"], ["step"]),
    **{"weigh": ["step", "weight"], "contribute": ["step", "contributor"]},
    **{"take": ["required"], "try_take": ["required"], "take_round": ["required", "step"]},
    **{"set_step": ["step"], "reset": ["step"], "count": [], "dropped": [], "step": []},
}
APPLIES, TAKES = list(USES)[:4], list(USES)[4:7]


def use(impl: Any, name: str, handle: Any, dtype: tf.DType = tf.float32) -> Any:
    """Calls the operation of a call with a handle, and with gradients or takes of a dtype."""
    parts = [tf.cast([4.0, 8.0], dtype)] if name in APPLIES else []
    parts = [tf.constant([0, 1], tf.int64), *parts] if parts and impl.kind == "sparse" else parts
    scalars = {each: SCALARS[each] for each in USES[name]}
    return raw(impl.kind, name, handle, dtype, *parts, **scalars)


def with_one_gradient(impl: Any, make: Any = Calls, **arguments: Any) -> Any:
    acc = make(impl, tf.float32, [2], **arguments)
    acc.apply([4.0, 8.0])
    return acc


def assert_unharmed(acc: Any) -> None:
    assert acc.state() == (1, 0, 0)
    acc.apply([4.0, 8.0])
    np.testing.assert_array_equal(acc.take(2), [4.0, 8.0])


def assert_every_op_refuses(impl: Any, handle: Any, kinds: Any, *patterns: str) -> None:
    for name in USES:
        with noting(name), refused(kinds, *patterns):
            use(impl, name, handle)


def test_each_call_is_in_the_table():
    assert set(USES) == set(CALLS)


@pytest.mark.parametrize("resource", ["variable", "queue", "table", "original"])
def test_the_handle_of_another_resource_is_refused(ours, resource):
    made = {
        "variable": lambda: tf.Variable([1.0, 2.0]),
        "queue": lambda: tf.queue.FIFOQueue(3, tf.float32),
        "table": lambda: tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0),
        "original": lambda: v1.ConditionalAccumulator(tf.float32, [2], unique_name("theirs")),
    }[resource]()
    attributes = {"variable": "handle", "queue": "queue_ref", "table": "resource_handle"}
    handle = getattr(made, attributes.get(resource, "accumulator_ref"))
    assert_every_op_refuses(ours, handle, InvalidArgument, "wrong type")
    if resource == "variable":
        np.testing.assert_array_equal(made, [1.0, 2.0])


def test_the_original_refuses_our_handle(ours):
    acc = with_one_gradient(ours)
    with refused(InvalidArgument, "wrong type"):
        tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


@pytest.mark.kinds("sparse")
def test_the_reference_of_the_original_is_refused_in_a_graph(ours, graph):
    theirs = v1.SparseConditionalAccumulator(tf.float32)
    with refused((TypeError, ValueError), "(?s)handle.*resource"):
        use(ours, "apply", theirs.accumulator_ref)


def test_the_handle_of_the_other_kind_is_refused(ours):
    other = {"dense": "sparse", "sparse": "dense"}[ours.kind]
    acc = with_one_gradient(ours)
    handle, rows, ones = acc.accumulator.accumulator_ref, tf.constant([0], tf.int64), tf.ones([1])
    parts = [rows, ones] if other == "sparse" else [ones]
    for name in (*APPLIES, *TAKES):
        scalars = {each: SCALARS[each] for each in USES[name]}
        gradient = parts if name in APPLIES else []
        with noting(name), refused(InvalidArgument, "dense", "sparse"):
            raw(other, name, handle, tf.float32, *gradient, **scalars)
    assert_unharmed(acc)


def test_several_handles_or_none_are_refused(ours):
    acc = with_one_gradient(ours)
    pair = tf.stack([acc.accumulator.accumulator_ref] * 2)
    for handle, shown in ((pair, r"\[2\]"), (pair[:0], r"\[0\]|Empty")):
        assert_every_op_refuses(ours, handle, BadArgument, "handle", shown)
    assert_unharmed(acc)


def test_gradients_and_takes_of_another_dtype_are_refused(ours):
    """TensorFlow's own accumulator aborts the process."""
    acc = with_one_gradient(ours)
    for dtype, shown in NAMES.items():
        for name in (*APPLIES, *TAKES):
            with noting(f"{name} of {shown}"), refused(BadArgument, "float", shown):
                use(ours, name, acc.accumulator.accumulator_ref, dtype)
    assert_unharmed(acc)


def test_a_gradient_of_another_dtype_in_a_graph_is_refused(ours):
    acc = with_one_gradient(ours, SessionCalls, name="floats")
    with acc.graph.as_default():
        handle = v1.placeholder_with_default(acc.accumulator.accumulator_ref, None)
        apply = use(ours, "apply", handle, tf.float64)
    with refused(BadArgument, "floats", "float", "double|float64"):
        acc.run(apply)
    assert_unharmed(acc)


def test_a_handle_of_nothing_is_refused(ours):
    """Uses a handle whose resource was never made on that device."""
    with tf.device("/CPU:0"):
        nothing = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="nothing")
    assert_every_op_refuses(ours, nothing, (*Gone, InvalidArgument))


def test_the_handle_of_a_destroyed_accumulator_is_refused(ours):
    acc = with_one_gradient(ours, shared_name=unique_name("destroyed"))
    handle = acc.accumulator.accumulator_ref
    tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)
    assert_every_op_refuses(ours, handle, (*Gone, InvalidArgument))
    with refused(tf.errors.NotFoundError):
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


def test_an_anonymous_accumulator_lives_as_long_as_its_handle(ours):
    acc = with_one_gradient(ours)
    tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


def test_an_accumulator_may_be_destroyed_in_a_session_that_then_ends(ours):
    for shared_name in (None, "destroyed"):
        acc = with_one_gradient(ours, SessionCalls, shared_name=shared_name)
        waiting = [acc.start_take(3) for _ in range(3)]
        with acc.graph.as_default():
            destroy = tf.raw_ops.DestroyResourceOp(
                resource=acc.accumulator.accumulator_ref, ignore_lookup_error=False
            )
        acc.run(destroy)
        for call in (acc.count, lambda acc=acc: acc.apply([1.0, 2.0])):
            with contextlib.suppress(*Gone, InvalidArgument):
                call()
        acc.close()
        for take in waiting:
            assert isinstance(take.error(), tf.errors.OpError), take.error()


def test_the_reset_of_a_direct_session_forgets_its_accumulators(ours):
    acc = with_one_gradient(ours, SessionCalls)
    v1.Session.reset("")
    acc.close()
    assert SessionCalls(ours, tf.float32, [2]).count() == 0


def test_the_reset_of_a_server_forgets_its_accumulators_and_ends_its_takes(ours):
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        accumulators = [ours.dense(tf.float32, [2], shared_name=s) for s in (None, "shared")]
        applies = [acc.apply_grad([4.0, 8.0]) for acc in accumulators]
        takes = [acc.take_grad(2) for acc in accumulators]
        counts = [acc.num_accumulated() for acc in accumulators]
    session = v1.Session(server.target, graph=graph)
    session.run(applies)
    waiting = [Background(session.run, take) for take in takes]
    for take in waiting:
        take.wait_until_blocked()
    v1.Session.reset(server.target)
    with contextlib.suppress(tf.errors.AbortedError):  # The server has forgotten the session.
        session.close()
    for take in waiting:
        assert isinstance(take.error(), tf.errors.OpError), take.error()
    with v1.Session(server.target, graph=graph) as fresh:
        assert fresh.run(counts) == [0, 0]
        fresh.run(applies)
        assert fresh.run(counts) == [1, 1]
