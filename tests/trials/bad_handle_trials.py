"""Trials: handles of something else, resources that are gone, sessions that are reset."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf
from accumulator_support import Background, EagerDriver, GraphDriver, unique_name
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


def every_op(impl: Any, handle: Any) -> dict[str, Any]:
    one = tf.constant(1, tf.int64)
    return {
        "apply": lambda: impl.raw_apply(handle, one, tf.ones([2])),
        "take": lambda: impl.raw_take(handle, tf.constant(1), tf.float32),
        "try_take": lambda: impl.raw_try_take(handle, tf.constant(1), tf.float32),
        "num_accumulated": lambda: impl.raw_num_accumulated(handle),
        "num_dropped": lambda: impl.raw_num_dropped(handle),
        "global_step": lambda: impl.raw_global_step(handle),
        "set_global_step": lambda: impl.raw_set_global_step(handle, one),
    }


def variable_handle(impl: Any) -> None:
    variable = tf.Variable([1.0, 2.0])
    for name, use in every_op(impl, variable.handle).items():
        with refused(tf.errors.InvalidArgumentError, "wrong type"):
            use()
            raise AssertionError(name)
    np.testing.assert_array_equal(variable, [1.0, 2.0])


def queue_and_table_handles(impl: Any) -> None:
    queue = tf.queue.FIFOQueue(3, tf.float32)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    for handle in (queue.queue_ref, table.resource_handle):
        for use in every_op(impl, handle).values():
            with refused(tf.errors.InvalidArgumentError, "wrong type"):
                use()


def handle_of_the_original(impl: Any) -> None:
    theirs = tf1.ConditionalAccumulator(tf.float32, [2], shared_name=unique_name("theirs"))
    for use in every_op(impl, theirs.accumulator_ref).values():
        with refused(tf.errors.InvalidArgumentError, "wrong type"):
            use()


def our_handle_to_the_original(impl: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    with refused(tf.errors.InvalidArgumentError, "wrong type"):
        tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=acc.accumulator.accumulator_ref)
    unharmed(acc)


def several_handles_or_none(impl: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    pair = tf.stack([acc.accumulator.accumulator_ref] * 2)
    for handle, shown in ((pair, r"\[2\]"), (pair[:0], r"\[0\]|Empty")):
        for name, use in every_op(impl, handle).items():
            with refused(BadArgument, "handle", shown):
                use()
                raise AssertionError(f"{name} accepted it")
    unharmed(acc)


def handle_of_another_device_or_of_nothing(impl: Any) -> None:
    """A handle whose resource was never made on the device where it is used."""
    with tf.device("/CPU:0"):
        nothing = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="nothing")
    for use in every_op(impl, nothing).values():
        with refused(Gone):
            use()


def destroyed_then_used(impl: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2], shared_name=unique_name("destroyed"))
    acc.apply([4.0, 8.0])
    handle = acc.accumulator.accumulator_ref
    tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)
    for use in every_op(impl, handle).values():
        with refused(Gone):
            use()
    with refused(tf.errors.NotFoundError):
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


def anonymous_one_lives_on_while_its_handle_does(impl: Any) -> None:
    acc = EagerDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    unharmed(acc)


def destroyed_in_a_session_that_then_ends(impl: Any) -> None:
    for shared_name in (None, "destroyed"):
        acc = GraphDriver(impl, tf.float32, [2], shared_name=shared_name)
        acc.apply([4.0, 8.0])
        with acc.graph.as_default():
            destroy = tf.raw_ops.DestroyResourceOp(
                resource=acc.accumulator.accumulator_ref, ignore_lookup_error=False
            )
        acc.session.run(destroy)
        for use in (acc.count, lambda acc=acc: acc.apply([1.0, 2.0])):
            try:
                use()
            except Gone:
                pass
        acc.close()
        del acc


def destroyed_while_takes_wait(impl: Any) -> None:
    acc = GraphDriver(impl, tf.float32, [2])
    waiting = [acc.start_take(2) for _ in range(3)]
    with acc.graph.as_default():
        destroy = tf.raw_ops.DestroyResourceOp(resource=acc.accumulator.accumulator_ref)
    acc.session.run(destroy)
    acc.close()
    for take in waiting:
        assert isinstance(take.error(), tf.errors.OpError), take.error()


def reset_of_a_direct_session(impl: Any) -> None:
    acc = GraphDriver(impl, tf.float32, [2])
    acc.apply([4.0, 8.0])
    tf1.Session.reset("")
    acc.close()
    again = GraphDriver(impl, tf.float32, [2])
    assert again.count() == 0


def reset_of_a_server(impl: Any) -> None:
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        private = impl.dense(tf.float32, [2])
        shared = impl.dense(tf.float32, [2], shared_name="shared")
        applies = [a.apply_grad([4.0, 8.0]) for a in (private, shared)]
        counts = [a.num_accumulated() for a in (private, shared)]
    session = tf1.Session(server.target, graph=graph)
    session.run(applies)
    tf1.Session.reset(server.target)
    with tf1.Session(server.target, graph=graph) as fresh:
        assert fresh.run(counts) == [0, 0]
        fresh.run(applies)
        assert fresh.run(counts) == [1, 1]


def reset_of_a_server_with_a_waiting_take(impl: Any) -> None:
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        accumulators = [impl.dense(tf.float32, [2], shared_name=s) for s in (None, "shared")]
        takes = [a.take_grad(1) for a in accumulators]
        counts = [a.num_accumulated() for a in accumulators]
    session = tf1.Session(server.target, graph=graph)
    session.run(counts)
    waiting = [Background(session.run, take) for take in takes]
    for take in waiting:
        take.wait_until_blocked()
    tf1.Session.reset(server.target)
    with contextlib.suppress(tf.errors.AbortedError):  # The server has forgotten the session.
        session.close()
    for take in waiting:
        assert isinstance(take.error(), tf.errors.OpError), take.error()
    with tf1.Session(server.target, graph=graph) as fresh:
        assert fresh.run(counts) == [0, 0]


TRIALS = {
    f.__name__: f
    for f in (
        variable_handle,
        queue_and_table_handles,
        handle_of_the_original,
        our_handle_to_the_original,
        several_handles_or_none,
        handle_of_another_device_or_of_nothing,
        destroyed_then_used,
        anonymous_one_lives_on_while_its_handle_does,
        destroyed_in_a_session_that_then_ends,
        destroyed_while_takes_wait,
        reset_of_a_direct_session,
        reset_of_a_server,
        reset_of_a_server_with_a_waiting_take,
    )
}

if __name__ == "__main__":
    run_trials(TRIALS)
