"""Trials of handles of other resources, destroyed resources, and sessions that are reset."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import Background, EagerDriver, GraphDriver, unique_name
from tests.support.refusals import (
    BadArgument,
    Gone,
    InvalidArgument,
    assert_unharmed,
    refused,
    with_gradients,
)
from tests.support.trial_runs import Trials

v1 = tf.compat.v1
TRIALS = Trials()


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


@TRIALS.add
def variable_handle(impl: Any) -> None:
    variable = tf.Variable([1.0, 2.0])
    assert_every_op_refuses(impl, variable.handle, InvalidArgument, "wrong type")
    np.testing.assert_array_equal(variable, [1.0, 2.0])


@TRIALS.add
def queue_and_table_handles(impl: Any) -> None:
    queue = tf.queue.FIFOQueue(3, tf.float32)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    for handle in (queue.queue_ref, table.resource_handle):
        assert_every_op_refuses(impl, handle, InvalidArgument, "wrong type")


@TRIALS.add
def handle_of_the_original(impl: Any) -> None:
    theirs = v1.ConditionalAccumulator(tf.float32, [2], shared_name=unique_name("theirs"))
    assert_every_op_refuses(impl, theirs.accumulator_ref, InvalidArgument, "wrong type")


@TRIALS.add
def our_handle_to_the_original(impl: Any) -> None:
    acc = with_gradients(1, EagerDriver, impl)
    with refused(InvalidArgument, "wrong type"):
        tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


@TRIALS.add
def several_handles_or_none(impl: Any) -> None:
    acc = with_gradients(1, EagerDriver, impl)
    pair = tf.stack([acc.accumulator.accumulator_ref] * 2)
    for handle, shown in ((pair, r"\[2\]"), (pair[:0], r"\[0\]|Empty")):
        assert_every_op_refuses(impl, handle, BadArgument, "handle", shown)
    assert_unharmed(acc)


@TRIALS.add
def handle_of_another_device_or_of_nothing(impl: Any) -> None:
    """Uses a handle whose resource was never made on that device."""
    with tf.device("/CPU:0"):
        nothing = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="nothing")
    assert_every_op_refuses(impl, nothing, (*Gone, InvalidArgument))


@TRIALS.add
def destroyed_then_used(impl: Any) -> None:
    acc = with_gradients(1, EagerDriver, impl, shared_name=unique_name("destroyed"))
    handle = acc.accumulator.accumulator_ref
    tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)
    assert_every_op_refuses(impl, handle, (*Gone, InvalidArgument))
    with refused(tf.errors.NotFoundError):
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


@TRIALS.add
def anonymous_one_lives_on_while_its_handle_does(impl: Any) -> None:
    acc = with_gradients(1, EagerDriver, impl)
    tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    assert_unharmed(acc)


@TRIALS.add
def destroyed_in_a_session_that_then_ends(impl: Any) -> None:
    for shared_name in (None, "destroyed"):
        acc = with_gradients(1, GraphDriver, impl, shared_name=shared_name)
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


@TRIALS.add
def destroyed_while_takes_wait(impl: Any) -> None:
    acc = GraphDriver(impl, tf.float32, [2])
    waiting = [acc.start_take(2) for _ in range(3)]
    with acc.graph.as_default():
        destroy = tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    acc.session.run(destroy)
    acc.close()
    for take in waiting:
        assert isinstance(take.error(), tf.errors.OpError), take.error()


@TRIALS.add
def reset_of_a_direct_session(impl: Any) -> None:
    acc = with_gradients(1, GraphDriver, impl)
    v1.Session.reset("")
    acc.close()
    again = GraphDriver(impl, tf.float32, [2])
    assert again.count() == 0


@TRIALS.add
def reset_of_a_server(impl: Any) -> None:
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        private = impl.dense(tf.float32, [2])
        shared = impl.dense(tf.float32, [2], shared_name="shared")
        applies = [a.apply_grad([4.0, 8.0]) for a in (private, shared)]
        counts = [a.num_accumulated() for a in (private, shared)]
    session = v1.Session(server.target, graph=graph)
    session.run(applies)
    v1.Session.reset(server.target)
    with v1.Session(server.target, graph=graph) as fresh:
        assert fresh.run(counts) == [0, 0]
        fresh.run(applies)
        assert fresh.run(counts) == [1, 1]


@TRIALS.add
def reset_of_a_server_with_a_waiting_take(impl: Any) -> None:
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        accumulators = [impl.dense(tf.float32, [2], shared_name=s) for s in (None, "shared")]
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
