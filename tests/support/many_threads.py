"""Many threads on one accumulator: starting them together, and adding up their results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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
