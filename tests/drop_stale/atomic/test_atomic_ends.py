"""Tests of reservations that end in unusual ways, of extreme steps, and of names."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

from tests.drop_stale.gate import MAX, MIN, Gate
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


def test_integers_at_the_ends_of_their_range_are_compared_right(ours):
    numbers = (MIN, MIN + 1, -1, 0, 1, MAX - 1, MAX)
    for step in numbers:
        for local_step in numbers:
            for limit in numbers:
                gate = Gate(step)
                decision = gate.decide(
                    local_step=tf.constant(local_step, tf.int64), limit=tf.constant(limit, tf.int64)
                )
                staleness = min(max(step - local_step, MIN), MAX)
                assert int(decision.staleness) == staleness, (step, local_step, limit)
                assert bool(decision.accepted) == (staleness <= limit), (step, local_step, limit)
                ops.condacc_staleness_gate_end(decision.reservation, True)
    for dtype, highest in ((tf.int64, MAX), (tf.int32, 2**31 - 1)):
        gate = Gate(highest, dtype)
        for _ in range(3):  # The step overflows to its lowest value, as TensorFlow's counters do.
            now = tf.cast(gate.step, tf.int64)
            decision = gate.decide(local_step=now)
            assert bool(decision.accepted) and int(decision.staleness) == 0
            gate.step.assign_add(1)
            ops.condacc_staleness_gate_end(decision.reservation, True)


def test_counter_may_have_any_name(ours):
    gate = Gate()
    for counter in ("", "c/d", "ä", "x" * 10_000, "zero\0zero"):
        assert not gate.decide(counter=counter, limit=tf.constant(-1, tf.int64)).accepted
        assert int(ops.condacc_staleness_gate_num_dropped(gate.handle, counter=counter)) == 1
    gate.expect_unharmed()


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
