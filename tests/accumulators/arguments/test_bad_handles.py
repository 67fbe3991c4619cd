"""Tests of handles of other resources, destroyed resources, and sessions that are reset."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver, every_kind, unique_name
from tests.support.refusals import (
    BadArgument,
    Gone,
    InvalidArgument,
    assert_unharmed,
    refused,
    with_gradients,
)
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind


def assert_every_op_refuses(impl: Any, handle: Any, kinds: Any, *patterns: str) -> None:
    one, required = tf.constant(1, tf.int64), tf.constant(1)
    for op, arguments in (
        (impl.raw_apply, (one, tf.ones([2]))),
        (impl.raw_take, (required, tf.float32)),
        (impl.raw_try_take, (required, tf.float32)),
        (impl.raw_num_accumulated, ()),
        (impl.raw_num_dropped, ()),
        (impl.raw_global_step, ()),
        (impl.raw_set_global_step, (one,)),
    ):
        with refused(kinds, *patterns):
            op(handle, *arguments)


def test_handle_of_a_variable_is_refused(ours):
    variable = tf.Variable([1.0, 2.0])
    assert_every_op_refuses(ours, variable.handle, InvalidArgument, "wrong type")
    np.testing.assert_array_equal(variable, [1.0, 2.0])


def test_handles_of_queues_and_tables_are_refused(ours):
    queue = tf.queue.FIFOQueue(3, tf.float32)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    for handle in (queue.queue_ref, table.resource_handle):
        assert_every_op_refuses(ours, handle, InvalidArgument, "wrong type")


def test_handle_of_the_original_is_refused(ours):
    theirs = v1.ConditionalAccumulator(tf.float32, [2], shared_name=unique_name("theirs"))
    assert_every_op_refuses(ours, theirs.accumulator_ref, InvalidArgument, "wrong type")


def test_the_original_refuses_our_handle(ours):
    acc = with_gradients(1, EagerDriver, ours)
    with refused(InvalidArgument, "wrong type"):
        tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


def test_several_handles_or_none_are_refused(ours):
    acc = with_gradients(1, EagerDriver, ours)
    pair = tf.stack([acc.accumulator.accumulator_ref] * 2)
    for handle, shown in ((pair, r"\[2\]"), (pair[:0], r"\[0\]|Empty")):
        assert_every_op_refuses(ours, handle, BadArgument, "handle", shown)
    assert_unharmed(acc)


def test_handle_of_another_device_or_of_nothing_is_refused(ours):
    """Uses a handle whose resource was never made on that device."""
    with tf.device("/CPU:0"):
        nothing = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="nothing")
    assert_every_op_refuses(ours, nothing, (*Gone, InvalidArgument))


def test_handle_of_a_destroyed_accumulator_is_refused(ours):
    acc = with_gradients(1, EagerDriver, ours, shared_name=unique_name("destroyed"))
    handle = acc.accumulator.accumulator_ref
    tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)
    assert_every_op_refuses(ours, handle, (*Gone, InvalidArgument))
    with refused(tf.errors.NotFoundError):
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


def test_anonymous_accumulator_lives_as_long_as_its_handle(ours):
    acc = with_gradients(1, EagerDriver, ours)
    tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


def test_accumulator_may_be_destroyed_in_a_session_that_then_ends(ours):
    for shared_name in (None, "destroyed"):
        acc = with_gradients(1, GraphDriver, ours, shared_name=shared_name)
        with acc.graph.as_default():
            destroy = tf.raw_ops.DestroyResourceOp(
                resource=acc.accumulator.accumulator_ref, ignore_lookup_error=False
            )
        acc.session.run(destroy)
        for use in (acc.count, lambda acc=acc: acc.apply([1.0, 2.0])):
            try:
                use()
            except (*Gone, InvalidArgument):
                pass
        acc.close()
        del acc


def test_takes_of_a_destroyed_accumulator_end_with_the_session(ours):
    acc = GraphDriver(ours, tf.float32, [2])
    waiting = [acc.start_take(2) for _ in range(3)]
    with acc.graph.as_default():
        destroy = tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    acc.session.run(destroy)
    acc.close()
    for take in waiting:
        assert isinstance(take.error(), tf.errors.OpError), take.error()


def test_reset_of_a_direct_session_forgets_its_accumulators(ours):
    acc = with_gradients(1, GraphDriver, ours)
    v1.Session.reset("")
    acc.close()
    again = GraphDriver(ours, tf.float32, [2])
    assert again.count() == 0


def test_reset_of_a_server_forgets_its_accumulators(ours):
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        private = ours.dense(tf.float32, [2])
        shared = ours.dense(tf.float32, [2], shared_name="shared")
        applies = [a.apply_grad([4.0, 8.0]) for a in (private, shared)]
        counts = [a.num_accumulated() for a in (private, shared)]
    session = v1.Session(server.target, graph=graph)
    session.run(applies)
    v1.Session.reset(server.target)
    with v1.Session(server.target, graph=graph) as fresh:
        assert fresh.run(counts) == [0, 0]
        fresh.run(applies)
        assert fresh.run(counts) == [1, 1]


def test_reset_of_a_server_ends_its_waiting_takes(ours):
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        accumulators = [ours.dense(tf.float32, [2], shared_name=s) for s in (None, "shared")]
        takes = [a.take_grad(1) for a in accumulators]
        counts = [a.num_accumulated() for a in accumulators]
    session = v1.Session(server.target, graph=graph)
    session.run(counts)
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
