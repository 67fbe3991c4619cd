"""Test of runs that have threads of their own, as some servers ask for."""

from __future__ import annotations

import subprocess
import sys

# A take that waits for ever keeps the session from closing, so the program ends without that.
PROGRAM = """
import os, threading
import tensorflow as tf, tf_condacc
v1 = tf.compat.v1
options = v1.RunOptions(experimental=v1.RunOptions.Experimental(use_run_handler_pool=True))
with tf.Graph().as_default():
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [300_000])
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [None, 4])
    step = tf.constant(2**60, tf.int64)
    applies = [
        dense.apply_grad(tf.ones([300_000]), step),
        sparse.apply_grad(tf.range(20_000, dtype=tf.int64), tf.ones([20_000, 4]), step),
    ]
    takes = [dense.take_grad(4), sparse.take_grad(4).values]
    with v1.Session() as session:
        def apply():
            for _ in range(20):
                session.run(applies, options=options)
        def take(value):
            while True:
                session.run(value, options=options)
        threads = [threading.Thread(target=apply) for _ in range(4)]
        takers = [threading.Thread(target=take, args=(t,), daemon=True) for t in takes]
        for thread in threads + takers:
            thread.start()
        for thread in threads:
            thread.join()
        print("all applied", flush=True)
        os._exit(0)
"""


# TensorFlow ends the process if a run has left work for its threads.
def test_nothing_is_left_in_the_queue_of_a_run():
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "all applied" in ended.stdout, ended.stderr[-2000:]
