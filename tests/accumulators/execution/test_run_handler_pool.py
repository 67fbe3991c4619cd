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
        takes = [dense.take_grad(THREADS), sparse.take_grad(THREADS).values]
        with v1.Session() as session:
            for _ in range(ROUNDS):
                threads = [
                    threading.Thread(target=session.run, args=(applies, None, options))
                    for _ in range(THREADS)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                # A take that waits would keep the threads of its run from all other runs.
                for value in session.run(takes, options=options):
                    np.testing.assert_array_equal(value, np.full(value.shape, THREADS))
