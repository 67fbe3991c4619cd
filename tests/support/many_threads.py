"""Sessions with many threads, and the threads of queue runners."""

from __future__ import annotations

import threading

import tensorflow as tf

from tests.support.waiting import PATIENCE_SECS

v1 = tf.compat.v1
FAR_AHEAD = 2**40


def join_queue_runners() -> None:
    """Waits for the end of the threads of queue runners, which may fail until then.

    A test that expects them to fail, and ignores it, must not end before them: the failure would be
    a warning about a later test.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("QueueRunnerThread"):
            thread.join(PATIENCE_SECS)


def many_threaded_session(graph: tf.Graph) -> v1.Session:
    config = v1.ConfigProto(inter_op_parallelism_threads=8, use_per_session_threads=True)
    return v1.Session(graph=graph, config=config)
