"""Tests of reservations that end in unusual ways, and of the names of gates."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

from tests.drop_stale.gate import Gate
from tf_condacc._ops.native import ops
from tf_condacc._optimizers.drop_stale.gate import StalenessGate

pytestmark = pytest.mark.usefixtures("on_cpu")
v1 = tf.compat.v1


def test_reservation_that_is_ended_twice_counts_once(ours):
    gate = Gate()
    for applied in ([True, True], [True, False], [False, True]):
        reservation = gate.decide().reservation
        assert not gate.decide().accepted
        for value in applied:
            ops.condacc_staleness_gate_end(reservation, value)
        assert int(gate.decide(limit=tf.constant(-1, tf.int64)).staleness) == 0
    assert gate.counts() == [2, 6]


def test_reservation_of_a_dropped_update_may_be_ended(ours):
    gate = Gate()
    dropped = gate.decide(local_step=tf.constant(4, tf.int64))
    for _ in range(3):
        ops.condacc_staleness_gate_end(dropped.reservation, True)
    assert gate.counts() == [0, 1]
    assert gate.decide().accepted and not dropped.accepted


def test_reservation_may_outlive_the_gate(ours):
    gate = Gate()
    first, second = gate.decide(limit=tf.constant(9, tf.int64)), gate.decide()
    del gate
    gc.collect()
    ops.condacc_staleness_gate_end(first.reservation, True)
    del first, second
    gc.collect()


def test_name_of_the_gate_may_be_taken(ours):
    """The name of the gate may belong to a resource of another kind, without any effect."""
    with tf.Graph().as_default():
        step = v1.get_variable("my_step", initializer=tf.constant(5, tf.int64))
        accumulator = ours.dense(tf.float32, [], shared_name="my_step/staleness_gate")
        count = accumulator.num_accumulated()
        decision = StalenessGate(step, "c").decide(5, 0)
        with v1.Session() as session:
            session.run(step.initializer)
            assert session.run([count, decision.accepted]) == [0, True]


def test_gates_of_other_steps_do_not_count(v1_graph):
    """An update in progress on one step is no reason to drop updates on another step."""
    steps = [v1.get_variable(name, initializer=tf.constant(5, tf.int64)) for name in "ab"]
    gates = [StalenessGate(step, "c") for step in (*steps, steps[0])]
    decisions = [gate.decide(5, 0) for gate in gates]
    accepted = [decision.accepted for decision in decisions]
    with tf.control_dependencies(accepted):
        pairs = zip(gates, decisions, strict=True)
        ends = [gate.end(decision.reservation, False) for gate, decision in pairs]
    with v1.Session() as session:
        session.run([step.initializer for step in steps])
        first, other, second = session.run([*accepted, ends])[:3]
    assert other and first != second
