"""Tests of workers that are lost, are frozen, are taken over and come back."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf

import tf_condacc
from tf_condacc import ApplyOutcome
from tf_condacc._optimizers.sync_replicas import pushes

v1 = tf.compat.v1
# Slots may be taken over in every round. No test depends on which slots are.
TAKEOVERS = {"takeover_secs": 0.01}


def stopping(*tasks: int, before: str = "b"):
    """Makes some workers stop between the push of `w` and that of `b`, or elsewhere."""
    return lambda task: {"stops_before": before} if task in tasks else {}


def test_a_worker_lost_in_the_middle_of_its_pushes_stops_nobody(two_ps, training):
    run = training(two_ps, 2, 2, stopping(1))
    run.start()
    run.steps_on_thread(1)
    run.await_push(1, "w")
    first = run.steps_on_thread(0, 3)
    run.await_state(lambda state: state.num_complete == 1)
    run.lose(1)
    run.await_state(lambda state: state.round >= 2)
    first.result()
    assert run.num_pushes(0, "w", ApplyOutcome.DUPLICATE) == 1
    run.check()


def test_a_worker_lost_while_it_computes_stops_nobody(two_ps, training):
    run = training(two_ps, 3, 2, stopping(1, before=""))
    run.start()
    run.steps_on_thread(1)
    first = run.steps_on_thread(0, 5)
    run.await_state(lambda state: state.num_complete == 2)
    run.lose(1)
    run.await_state(lambda state: state.round >= 2)
    first.result()
    run.check()


def test_a_worker_lost_between_steps_is_taken_over(two_ps, training):
    run = training(two_ps, 2, 2, configure=TAKEOVERS)
    run.start()
    run.step(1)  # It ends with a takeover, because the chief brings nothing.
    run.step(0)
    run.lose(1)
    before = run.gate_state().num_takeovers
    run.step(0)
    assert run.gate_state().num_takeovers > before
    run.step(0)
    first = run.gate_state()
    # The worker is known to be lost, so the chief does not wait for it any more.
    for _ in range(4):
        run.step(0)
    assert run.gate_state() == first._replace(round=first.round + 2)
    run.check()


def test_the_weights_do_not_change_between_two_steps_of_the_chief(two_ps, training):
    """It saves checkpoints then, which may take longer than `takeover_secs`."""
    run = training(two_ps, 2, 2, configure=TAKEOVERS)
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


def test_a_lost_worker_that_is_started_again_takes_part(two_ps, training):
    run = training(two_ps, 2, 2, configure=TAKEOVERS)
    run.start()
    run.lose(1)
    run.step(0)  # Nobody else brings the round's second gradient, until the worker comes again.
    run.new_model(1, first=100)
    run.start(1)
    worker = run.steps_on_thread(1, 2)
    run.await_push(1, "w")
    run.step_until_ended(0, worker)
    assert run.num_pushes(1, "w", ApplyOutcome.ADDED) >= 1
    run.check()


def test_late_pushes_of_a_worker_that_was_taken_over_are_ignored(two_ps, training):
    run = training(two_ps, 2, 2, stopping(1), configure=TAKEOVERS)
    run.start()
    worker = run.steps_on_thread(1, 2)
    run.await_push(1, "w")
    while run.gate_state().round < 2:
        run.step(0)
    run.permit(1, 2)
    worker.result()  # Its second step is alone in the round, and ends with a takeover.
    assert run.num_pushes(1, "b", ApplyOutcome.STALE) == 1
    assert run.num_pushes(1, "b", ApplyOutcome.ADDED) == 1
    run.step(0)
    run.check()


def both_push_one_slot(two_ps, training):
    """Makes the holder of a slot and its successor push at the same time."""
    run = training(two_ps, 2, 2, stopping(0, 1), configure=TAKEOVERS)
    run.start()
    run.steps_on_thread(1)
    run.await_push(1, "w")
    run.permit(0)
    run.steps_on_thread(0, 2)
    run.await_state(lambda state: state.num_takeovers >= 1)
    run.await_push(0, "w", 2)
    run.permit(1)
    run.await_push(1, "b")
    run.await_state(lambda state: state.round >= 2)
    run.permit(0)
    run.join()
    return run


def test_a_slot_pushed_by_its_holder_and_its_successor_counts_once(two_ps, training):
    run = both_push_one_slot(two_ps, training)
    assert run.num_pushes(0, "w", ApplyOutcome.DUPLICATE) == 1
    run.check()


def test_without_contributors_the_same_slot_counts_twice(two_ps, training, monkeypatch):
    """This is the control of the test above: the check finds what contributors prevent."""

    def push(self, claim, arrived):
        round_, _ = claim.on(self.variable.device)
        accepted = self.accumulator.try_apply_grad(arrived, round_)
        return tf.where(accepted, ApplyOutcome.ADDED, ApplyOutcome.STALE)

    monkeypatch.setattr(pushes.VariableGradients, "push", push)
    run = both_push_one_slot(two_ps, training)
    with pytest.raises(AssertionError):
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
        hook = optimizer.make_session_run_hook(True)
        with v1.train.MonitoredTrainingSession(two_ps.targets[0], hooks=[hook]) as session:
            for _ in range(100):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(train, {value: float("nan")})
                for _ in range(replicas):
                    fetches = [train, optimizer.gradients_dropped]
                    assert not session.run(fetches, {value: 1.0})[1]
            assert session.run([step, weight]) == [100, -100.0]
