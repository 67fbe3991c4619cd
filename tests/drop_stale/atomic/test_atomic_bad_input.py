"""Tests of bad input to the ops of the gate: clear errors, and nothing changes."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

from tests.drop_stale.gate import Gate
from tests.support.refusals import BadArgument, Gone, refused
from tf_condacc._ops.native import ops
from tf_condacc._optimizers.drop_stale.gate import StalenessGate

pytestmark = pytest.mark.usefixtures("on_cpu")
v1 = tf.compat.v1
WRONG_HANDLE = (*BadArgument, *Gone), "wrong type|expected|not found|does not exist"


def test_inputs_that_are_no_scalars_are_refused(ours):
    """The shapes are unknown when the graph is built, and the error names the gate."""
    with tf.Graph().as_default():
        step = v1.get_variable("my_step", initializer=tf.constant(5, tf.int64))
        local_step, limit = (v1.placeholder(tf.int64, None) for _ in range(2))
        gate = StalenessGate(step, "c")
        decision, reach = gate.decide(local_step, limit), gate.decide(5, -1).staleness
        applied = v1.placeholder(tf.bool, None)
        end = gate.end(gate.decide(5, 0).reservation, applied)
        with v1.Session() as session:
            session.run(step.initializer)
            for shape in ([1], [0], [2, 3]):
                zeros = tf.zeros(shape, tf.int64).eval()
                for feed, name in (
                    ({local_step: zeros, limit: 0}, "local_step"),
                    ({local_step: 5, limit: zeros}, "limit"),
                ):
                    with refused(BadArgument, name, "scalar", "staleness gate 'my_step"):
                        session.run(decision.accepted, feed)
                with refused(BadArgument, "applied", "scalar", "staleness gate 'my_step"):
                    session.run(end, {applied: zeros.astype(bool)})
            assert session.run(gate.num_dropped()) == 0
            assert session.run(gate.num_accepted()) == 0
            assert session.run(reach) == 0, "nothing is reserved"


def test_inputs_of_another_dtype_are_refused(ours):
    gate = Gate()
    for name in ("local_step", "limit"):
        for value in (tf.constant(5), tf.constant(5.0), tf.constant("5"), tf.constant(True)):
            with refused(BadArgument, "int64"):
                gate.decide(**{name: value})
    decision = gate.decide(counter="other")
    with refused(BadArgument, "bool"):
        ops.condacc_staleness_gate_end(decision.reservation, tf.constant(1))
    ops.condacc_staleness_gate_end(decision.reservation, False)
    gate.expect_unharmed()


def test_handles_of_something_else_are_refused(ours):
    gate = Gate()
    queue = tf.queue.FIFOQueue(1, [tf.int32])
    accumulator = ours.module.ConditionalAccumulator(tf.float32).accumulator_ref
    reservation = gate.decide(counter="other").reservation
    table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
    others = [gate.step.handle, queue.queue_ref, accumulator, reservation, table]
    for other in others:
        with refused(*WRONG_HANDLE):
            gate.decide(gate=other)
        for count in (
            ops.condacc_staleness_gate_num_accepted,
            ops.condacc_staleness_gate_num_dropped,
            ops.condacc_staleness_gate_recent_staleness,
        ):
            with refused(*WRONG_HANDLE):
                count(other, counter="c")
    for other in (gate.handle, *others[1:]):
        with refused(*WRONG_HANDLE):
            gate.decide(step=other)
    for other in (gate.handle, *others[:3], table):
        with refused(*WRONG_HANDLE):
            ops.condacc_staleness_gate_end(other, True)
    with refused(BadArgument):
        gate.decide(gate=tf.constant(3))
    del reservation, others, other
    gc.collect()
    gate.expect_unharmed()


def test_handles_that_are_not_one_are_refused(ours):
    gate = Gate()
    for count in (0, 2):
        for argument in ("gate", "step"):
            one = gate.handle if argument == "gate" else gate.step.handle
            handles = tf.raw_ops.Pack(values=[one] * 2)[:count]
            with refused(BadArgument, f"{argument}.*one resource handle|Empty resource handle"):
                gate.decide(**{argument: handles})
        reservation = gate.decide(counter="other").reservation
        handles = tf.raw_ops.Pack(values=[reservation] * 2)[:count]
        with refused(BadArgument, "reservation.*one resource handle|Empty resource handle"):
            ops.condacc_staleness_gate_end(handles, True)
        del reservation, handles
    gc.collect()  # From Python 3.12 on, the errors above hold the handles in a reference cycle.
    gate.expect_unharmed()


def test_step_variable_of_another_kind_is_refused(ours):
    for value, dtype in (
        (tf.constant(5), tf.int64),
        (tf.constant(5, tf.int64), tf.int32),
        (tf.constant(5.0), tf.int64),
        (tf.constant([5], tf.int64), tf.int64),
        (tf.constant([], tf.int64), tf.int64),
        (tf.constant("five"), tf.int32),
    ):
        gate = Gate()
        other = tf.Variable(value)
        with refused(BadArgument, "step variable must be a scalar of dtype", "staleness gate"):
            gate.decide(step=other.handle, T=dtype)
        gate.expect_unharmed()


def test_step_variable_that_is_not_initialized_is_refused(ours):
    gate = Gate()
    handle = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="nothing")
    with refused(Gone, "staleness gate"):
        gate.decide(step=handle)
    gate.expect_unharmed()
