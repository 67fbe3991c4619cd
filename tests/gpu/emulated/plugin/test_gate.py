"""The staleness gate with a step variable on the emulated GPU."""

from __future__ import annotations

import tensorflow as tf

from tf_condacc._ops.native import ops

v1 = tf.compat.v1


def test_gate_reads_a_step_on_the_gpu() -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/device:GPU:0"):
            step = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="step")
            value = v1.placeholder(tf.int64, [])
        with tf.device("/device:CPU:0"):
            local_step = v1.placeholder(tf.int64, [])
            limit = tf.constant(1, tf.int64)
        with tf.device("/device:GPU:0"):
            assign = tf.raw_ops.AssignVariableOp(resource=step, value=value)
            gate = ops.condacc_staleness_gate(shared_name="gate")
            accepted, staleness, reservation = ops.condacc_staleness_gate_decide(
                gate, step, local_step, limit, T=tf.int64, counter="c"
            )
            with tf.control_dependencies([accepted]):
                end = ops.condacc_staleness_gate_end(reservation, tf.constant(True))
            dropped = ops.condacc_staleness_gate_num_dropped(gate, counter="c")
        config = v1.ConfigProto(allow_soft_placement=False)
        with v1.Session(graph=graph, config=config) as session:

            def decide(at: int) -> tuple[bool, int]:
                got = session.run([accepted, staleness, end], {local_step: at})
                return bool(got[0]), int(got[1])

            session.run(assign, {value: 7})
            for at, expected in [(7, True), (6, True), (5, False), (4, False), (-3, False)]:
                assert decide(at) == (expected, 7 - at)
                session.run(assign, {value: 7})  # An update that is accepted moves the step.
            session.run(assign, {value: 9})
            assert decide(8) == (True, 1)
            assert session.run(dropped) == 3
        decides = [op for op in graph.get_operations() if "Decide" in op.type]
        assert {op.device for op in decides} == {"/device:GPU:0"}
