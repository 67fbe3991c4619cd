"""Test of runs that have threads of their own, as some servers ask for."""

from __future__ import annotations

import sys

from tests.support.waiting import run_program

PROGRAM = """
import threading
import tensorflow as tf, tf_condacc
v1 = tf.compat.v1
options = v1.RunOptions(experimental=v1.RunOptions.Experimental(use_run_handler_pool=True))
with tf.Graph().as_default():
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [300_000])
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [None, 4])
    step = tf.constant(2**60, tf.int64)
    applies = [
        dense.apply_grad(tf.ones([300_000]), local_step=step),
        sparse.apply_grad(
            tf.range(20_000, dtype=tf.int64), tf.ones([20_000, 4]), local_step=step
        ),
    ]
    takes = [dense.take_grad(4), sparse.take_grad(4).values]
    sums = [tf.reduce_sum(taken) for taken in takes]
    with v1.Session() as session:
        taken = set()
        for _ in range(20):
            run = lambda: session.run(applies, options=options)
            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            taken.add(tuple(session.run(sums, options=options)))
            for thread in threads:
                thread.join()
        print(taken == {(300_000, 80_000)})
"""


# TensorFlow ends the process if a run has left work for its threads.
def test_nothing_is_left_in_the_queue_of_a_run():
    ended = run_program([sys.executable, "-c", PROGRAM])
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == "True\n"
