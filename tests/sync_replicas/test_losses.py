"""Tests of the sessions of workers that are lost or fail, or whose slots are taken over."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.sync_replicas_program import monitored

v1 = tf.compat.v1


def test_the_weights_do_not_change_between_two_steps_of_the_chief(two_ps, training):
    """It saves checkpoints then, which may take longer than `takeover_secs`."""
    run = training(two_ps, 2, 2, configure={"takeover_secs": 0.01})
    run.start()
    stop = threading.Event()

    def step_until_stopped() -> None:
        while not stop.is_set():
            run.step(1)

    worker = run.on_thread(step_until_stopped)
    run.step(0)
    before = run.weights()
    run.await_state(lambda state: state.num_complete == 2)
    assert run.gate_state().num_takeovers >= 1
    for _ in range(20):
        assert run.weights() == before
    run.step(0)
    assert run.weights() != before
    stop.set()
    run.step_until_ended(0, worker)
    run.check()


@pytest.mark.parametrize("replicas, total", [(2, 2), (1, 2)])
def test_a_step_that_fails_on_its_worker_leaves_nothing_at_the_gate(two_ps, replicas, total):
    """The gate's server may get its part of such a step when the program already makes the next."""
    with tf.Graph().as_default(), v1.device(two_ps.device(0)):
        value = v1.placeholder(tf.float32, [])
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("weight", initializer=0.0)
        with v1.device("/job:worker/task:0"):
            checked = tf.debugging.check_numerics(value, "input")
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(1.0), replicas, total, name=f"failing{replicas}"
        )
        optimizer.configure(report_secs=None)
        train = optimizer.apply_gradients([(checked, weight)], step)
        with monitored(optimizer, two_ps.targets[0]) as session:
            for _ in range(100):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(train, {value: float("nan")})
                for _ in range(replicas):
                    fetches = [train, optimizer.gradients_dropped]
                    assert not session.run(fetches, {value: 1.0})[1]
            assert session.run([step, weight]) == [100, -100.0]
