"""Many threads on one accumulator: starting them together, and adding up their results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import Background

v1 = tf.compat.v1
FAR_AHEAD = 2**40


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Runs the calls at the same time, and returns their results."""
    start = threading.Barrier(len(calls))

    def begin(call):
        start.wait(30)
        return call()

    running = [Background(begin, call) for call in calls]
    return [run.result(90) for run in running]


def join_queue_runners() -> None:
    """Waits for the end of the threads of queue runners, which may fail until then.

    A test that expects them to fail, and ignores it, must not end before them: the failure would be
    a warning about a later test.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("QueueRunnerThread"):
            thread.join(30)


def many_threaded_session(graph: tf.Graph) -> v1.Session:
    config = v1.ConfigProto(inter_op_parallelism_threads=8, use_per_session_threads=True)
    return v1.Session(graph=graph, config=config)


def build(impl: Any, size: int) -> Callable[..., Any]:
    with tf.Graph().as_default() as graph:
        value, number = v1.placeholder(tf.float64, []), v1.placeholder(tf.int64, [])
        required = v1.placeholder(tf.int32, [])
        acc = impl.dense(tf.float64, [size], reduction_type="SUM")
        ops = dict(
            apply=acc.apply_grad(tf.fill([size], value), number),
            take=acc.take_grad(required),
            count=acc.num_accumulated(),
            set_step=acc.set_global_step(number),
        )
        if impl.ours:
            ops["try_apply"] = acc.try_apply_grad(tf.fill([size], value), number)
            ops["try_take"] = acc.try_take_grad(required)
            ops["dropped"] = acc.num_dropped()
            ops["step"] = acc.global_step()
    session = many_threaded_session(graph)

    def run(op, v=0.0, n=0, r=1, options=None):
        return session.run(ops[op], {value: v, number: n, required: r}, options=options)

    return run


def whole(value: np.ndarray) -> float:
    """Returns the one number of which the gradient is made; a torn value has several."""
    assert np.all(value == value.flat[0]), "torn value"
    return float(value.flat[0])


def drain(run: Callable[..., Any]) -> float:
    left = int(run("count"))
    return whole(run("take", r=left)) if left else 0.0
