"""What waits for the emulated GPU, and what does not; and what is said about an old driver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from emulated_gpu import num_waits, stream_held

import tf_condacc
from tf_condacc._ops.native import ops

v1 = tf.compat.v1
TIMEOUT_SECS = 60


def test_no_apply_waits_for_the_device() -> None:
    with tf.Graph().as_default() as graph:
        gradient = v1.placeholder(tf.float32, [4, 2])
        rows = v1.placeholder(tf.int64, [4])
        dense = tf_condacc.ConditionalAccumulator(tf.float32, shape=[4, 2])
        sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, shape=[9, 2])
        applies = [
            dense.apply_grad(gradient * 1.0),
            dense.apply_grad(gradient),
            sparse.apply_grad(rows + 0, gradient * 1.0, None, 0),
            sparse.apply_grad(rows, gradient, [9, 2], 0),
        ]
        take_dense, take_sparse = dense.take_grad(80), sparse.take_indexed_slices_grad(80)
        with v1.Session(graph=graph) as session:
            feeds = {gradient: np.ones([4, 2]), rows: [8, 1, 8, 2]}
            before = num_waits()
            for _ in range(40):
                session.run(applies, feeds)
            np.testing.assert_array_equal(session.run(take_dense), np.ones([4, 2]))
            assert num_waits() == before
            np.testing.assert_array_equal(session.run(take_sparse).indices, [1, 2, 8])
            assert num_waits() > before, "a take of rows waits for their number"


def test_decision_that_waits_for_the_device_holds_nobody_up() -> None:
    """The operations that become ready together with the decision run, in few threads."""
    num_others = 8
    with tf.Graph().as_default() as graph:
        with tf.device("/device:GPU:0"):
            step = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="held_step")
            gate = ops.condacc_staleness_gate(shared_name="held_gate")
        with tf.device("/device:CPU:0"):
            queue = v1.FIFOQueue(num_others, [tf.int64], shapes=[[]])
            value = tf.constant(0, tf.int64)
        with tf.device("/device:GPU:0"):
            assign = tf.raw_ops.AssignVariableOp(resource=step, value=value)
            # The number 0, on which the decision and the others depend.
            last = ops.condacc_staleness_gate_num_dropped(gate, counter="c")
            decide = ops.condacc_staleness_gate_decide(
                gate, step, last, last, T=tf.int64, counter="c"
            )
            with tf.control_dependencies([last]):
                others = [
                    ops.condacc_staleness_gate_num_dropped(gate, counter=str(i))
                    for i in range(num_others)
                ]
        with tf.device("/device:CPU:0"):
            enqueues = [queue.enqueue(other) for other in others]
            size = queue.dequeue_many(num_others)
        config = v1.ConfigProto(inter_op_parallelism_threads=2)
        with v1.Session(graph=graph, config=config) as session, ThreadPoolExecutor() as pool:
            session.run(assign)
            session.run([decide.accepted, *enqueues])  # Makes the kernels, and sets their order.
            session.run(size)
            with stream_held():
                before = num_waits()
                decision = pool.submit(session.run, [decide.accepted, *enqueues])
                passed = pool.submit(session.run, size)
                np.testing.assert_array_equal(passed.result(TIMEOUT_SECS), [0] * num_others)
                while num_waits() == before:
                    assert not decision.done()
                assert not decision.done()
            assert decision.result(TIMEOUT_SECS)[0]


def test_driver_that_is_too_old_is_told_when_an_accumulator_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tf.Graph().as_default() as graph:
        accumulators = [
            tf_condacc.ConditionalAccumulator(tf.float32, shape=[2], name="dense"),
            tf_condacc.SparseConditionalAccumulator(tf.float32, name="sparse"),
        ]
        counts = [accumulator.num_accumulated() for accumulator in accumulators]
        with v1.Session(graph=graph) as session:
            monkeypatch.setenv("EMULATED_DRIVER_VERSION", "12040")
            for count, name in zip(counts, ["dense", "sparse"], strict=True):
                words = rf"supports CUDA 12\.4.*install a driver for CUDA .*'{name}'"
                with pytest.raises(tf.errors.FailedPreconditionError, match=words):
                    session.run(count)
            monkeypatch.delenv("EMULATED_DRIVER_VERSION")
            assert session.run(counts) == [0, 0]
