"""Tests of chiefs and workers that another process has replaced, and that come back."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf

from tests.support.waiting import PATIENCE_SECS, run_program
from tests.sync_replicas.training import Training
from tf_condacc._ops.native import ops

v1 = tf.compat.v1


def make_rounds(run: Training, count: int) -> None:
    for _ in range(count):
        for step in [run.steps_on_thread(task) for task in range(2)]:
            step.result()


def test_a_chief_that_was_replaced_ends_nothing_but_itself(two_ps, training):
    run = training(two_ps, 2, 2)
    run.start()
    make_rounds(run, 2)
    model, session = run.models[0], run.sessions[0]
    run.new_model(0, first=100)
    run.start(0)
    run.step(1)  # A step of the round that the new chief has discarded.
    run.log.events.clear()
    base = run.weights()
    make_rounds(run, 1)
    # A loop that does not ask whether to stop ends, too.
    assert session._coordinated_creator.coord.wait_for_stop(PATIENCE_SECS)
    with pytest.raises(tf.errors.FailedPreconditionError, match="chief"):
        model.run(session)
    with pytest.raises(tf.errors.FailedPreconditionError, match="chief"):
        session.__exit__(None, None, None)  # The old chief's program ends without an error.
    assert run.gate_state().open
    make_rounds(run, 2)
    run.join()
    run.check(base)


def test_a_worker_that_fails_between_two_steps_is_lost_at_once(two_ps, training):
    """All workers are needed, and nothing takes slots over after a time."""
    run = training(two_ps, 2, 2)
    run.start()
    make_rounds(run, 1)
    waiting = run.steps_on_thread(0, 2)
    run.await_state(lambda state: state.num_complete == 1)
    with pytest.raises(RuntimeError, match="bad record"), run.sessions.pop(1):
        raise RuntimeError("bad record in this worker's file")
    waiting.result()  # The other worker computes both gradients.
    assert run.gate_state().round == 3
    run.check()


def test_a_worker_that_was_started_again_replaces_its_lost_process(two_ps, training):
    """Nobody has noticed the loss: the connection of the old process is still open."""
    run = training(two_ps, 2, 2)
    run.start()
    waiting = run.steps_on_thread(1, 2)
    run.await_state(lambda state: state.num_complete == 1)
    old = run.sessions.pop(1)
    run.new_model(1, first=100)
    run.start(1)
    step = run.steps_on_thread(1)
    error = waiting.error()
    assert isinstance(error, tf.errors.FailedPreconditionError) and "replaced" in error.message
    run.running.remove(waiting)
    run.step(0)
    step.result()
    make_rounds(run, 1)
    old.close()
    run.check()


def test_a_session_has_a_number_of_its_own():
    """A chief that prepares the gate again goes on in its session, and begins anew in another."""
    with tf.Graph().as_default() as graph:
        number = ops.condacc_sync_gate_session()
    with v1.Session(graph=graph) as first, v1.Session(graph=graph) as second:
        assert first.run(number) == first.run(number) != second.run(number)


def test_chiefs_and_workers_do_not_log_that_queue_runners_are_deprecated():
    program = (
        "import tensorflow as tf, tf_condacc\n"
        "v1 = tf.compat.v1\n"
        "with tf.Graph().as_default():\n"
        "    step = v1.train.get_or_create_global_step()\n"
        "    weight = v1.get_variable('weight', initializer=8.0)\n"
        "    optimizer = tf_condacc.SyncReplicasOptimizer(\n"
        "        v1.train.GradientDescentOptimizer(0.25), 1)\n"
        "    optimizer.minimize(weight * weight, global_step=step)\n"
        "    assert isinstance(optimizer.get_chief_queue_runner(), v1.train.QueueRunner)\n"
    )
    done = run_program([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    assert "QueueRunner.__init__" not in done.stderr
