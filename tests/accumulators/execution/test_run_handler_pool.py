"""Tests of runs that have threads of their own, as some servers ask for."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.processes.isolated import isolated

v1 = tf.compat.v1
ELEMENTS = 300_000  # They are added in chunks, by several threads.
ROWS = 20_000
THREADS, ROUNDS = 4, 10


# TensorFlow ends the process if a run has left work for its threads.
@isolated()
@pytest.mark.kinds("sparse")
def test_nothing_is_left_in_the_queue_of_a_run(ours):
    options = v1.RunOptions(experimental=v1.RunOptions.Experimental(use_run_handler_pool=True))
    with tf.Graph().as_default():
        dense = ours.module.ConditionalAccumulator(tf.float32, [ELEMENTS], reduction_type="SUM")
        sparse = ours.sparse(tf.float32, [None, 4], reduction_type="SUM")
        step = tf.constant(2**60, tf.int64)
        applies = [
            dense.apply_grad(tf.ones([ELEMENTS]), step),
            sparse.apply_grad(tf.range(ROWS, dtype=tf.int64), tf.ones([ROWS, 4]), step),
        ]
        count = THREADS * ROUNDS
        takes = [dense.take_grad(count), sparse.take_grad(count).values]
        with v1.Session() as session:
            # A run that waits would keep its threads from other runs, so the takes are other runs.
            def apply() -> None:
                for _ in range(ROUNDS):
                    session.run(applies, options=options)

            threads = [threading.Thread(target=apply) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for value in session.run(takes):
                np.testing.assert_array_equal(value, np.full(value.shape, THREADS * ROUNDS))
