"""Tests of chiefs: what they begin, what others do without one, and how training ends."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.waiting import PATIENCE_SECS, Background, until
from tests.sync_replicas.test_programs import Program
from tests.sync_replicas.training import OneProcess
from tf_condacc._optimizers.sync_replicas.recovery import (
    aborting_if_server_is_lost,
    recover_cancelled_steps,
)

v1 = tf.compat.v1


def test_a_new_chief_discards_the_round_and_begins_another(two_ps, training, tmp_path):
    run = training(two_ps, 2, 2)
    saver = {"checkpoint_dir": str(tmp_path), "save_checkpoint_steps": 2}
    run.start(0, **saver)
    run.start(1)
    for _ in range(3):
        for step in [run.steps_on_thread(task) for task in (0, 1)]:
            step.result()
    run.steps_on_thread(1, 2)  # Pushes a gradient of the round before the chief is replaced.
    run.await_state(lambda state: state.num_complete == 1)
    replaced = run.sessions.pop(0)
    before = run.gate_state().round
    saved = int(tf.train.latest_checkpoint(tmp_path).rsplit("-", 1)[1])
    run.log.events.clear()
    restored = tf.train.load_checkpoint(str(tmp_path))
    base = {v.op.name: restored.get_tensor(v.op.name)[0] for v in run.models[1].variables}
    run.new_model(0, first=100)
    run.start(0, **saver)
    state = run.gate_state()
    assert state.open and state.round > before
    run.steps_on_thread(0, 1)
    run.join()
    assert run.values(lambda model: model.step) == saved + 1
    run.check(base)
    with pytest.raises(tf.errors.FailedPreconditionError, match="chief"):
        replaced.close()


def test_a_worker_is_ready_only_when_the_gate_is_open(two_ps, training):
    run = training(two_ps, 2, 2)
    run.start(0)
    run.sessions[0].close()  # This closes the gate; the variables are initialized.
    ready = Background(run.start, 1)
    run.await_state(lambda state: not state.open)
    assert 1 not in run.sessions
    run.new_model(0, first=100)
    run.start(0)
    ready.result()
    run.steps_on_thread(0)
    run.steps_on_thread(1)
    run.join()


@pytest.mark.parametrize("has_init_op", [True, False])
def test_a_program_with_a_supervisor_trains_and_ends(has_init_op):
    """Programs for TensorFlow 0.12 have no `chief_init_op`."""
    program = Program(OneProcess(), 0, f"supervised{has_init_op}", replicas=1)
    supervisor = program.supervisor(has_init_op)
    with program.graph.as_default():
        session = supervisor.prepare_or_wait_for_session(program.target)
        supervisor.start_queue_runners(session, [program.runner])
        session.run(program.tokens)
    for _ in range(5):
        session.run(program.train)
    assert session.run(program.weight) == 5.0
    supervisor.stop()  # The original's raises after 120 s, because its queue runner waits on.
    with v1.Session(program.target, graph=program.graph) as session:
        assert not session.run(program.gate_state.open)


@pytest.mark.parametrize("end", ["stop", "request_stop"])
def test_a_session_that_is_closed_before_the_supervisor_stops_is_no_error(end, capfd):
    program = Program(OneProcess(), 0, f"closed_{end}", replicas=1)
    supervisor = program.supervisor()
    with program.graph.as_default():
        session = supervisor.prepare_or_wait_for_session(program.target)
        threads = supervisor.start_queue_runners(session, [program.runner])
        session.run(program.train)
    with session:
        pass
    (runner,) = (
        each
        for each in threads
        if each.name.startswith("QueueRunnerThread") and not each.name.endswith("close_on_stop")
    )
    until(lambda: not runner.is_alive(), "the queue runner learns of the end by itself")
    getattr(supervisor, end)()
    supervisor.coord.join(stop_grace_period_secs=PATIENCE_SECS)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (tf.errors.CancelledError, tf.errors.AbortedError),
        (tf.errors.UnavailableError, tf.errors.UnavailableError),
        (tf.errors.OutOfRangeError, None),
    ],
)
def test_a_cancelled_step_of_the_chief_makes_the_session_begin_again(training, error, asked):
    """Steps may end with a cancellation when a parameter server is lost."""
    run = training(OneProcess(), 1, 1)
    runner = run.models[0].optimizer.get_chief_queue_runner()
    coordinator = tf.train.Coordinator()

    class Session:
        def make_callable(self, op):
            def fail():
                raise error(None, None, "lost")

            return fail

        def run(self, op):
            pass

    (step, *_) = runner.create_threads_without_closing(Session(), coordinator)
    Background(step.run).result()
    if asked is None:
        assert not coordinator.should_stop()
    else:
        with pytest.raises(asked):
            coordinator.raise_requested_exception()


def test_a_chief_whose_queue_runner_has_failed_does_not_wait_as_a_worker(two_ps, training):
    """The session waits for a round that only the queue runner could end."""
    run = training(two_ps, 2, 2)
    run.start()
    run.steps_on_thread(0)
    run.await_state(lambda state: state.num_complete == 1)
    coordinator = run.sessions[0]._coordinated_creator.coord
    error = tf.errors.AbortedError(None, None, "a server was lost")
    coordinator.request_stop((type(error), error, None))
    run.await_state(lambda state: state.round >= 2 and state.num_complete == 1)
    run.steps_on_thread(1, 2)  # The first step belongs to the lost round.
    run.join()
    run.check()


def joined_error(*parts: str) -> tf.errors.CancelledError:
    """Returns the error of a step on several servers, as TensorFlow joins those of its parts."""
    lines = ["Graph execution error:", "", "=====================", *parts, "====================="]
    return tf.errors.CancelledError(None, None, "\n".join(lines))


LOST = joined_error(
    "CANCELLED: From /job:worker/replica:0/task:1:", "ABORTED: From /job:ps/replica:0/task:1:"
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LOST, tf.errors.AbortedError),
        (joined_error("CANCELLED: ABORTED by the user"), tf.errors.CancelledError),
        (tf.errors.InternalError(None, None, LOST.message), tf.errors.InternalError),
    ],
)
def test_a_step_that_a_lost_server_has_cancelled_makes_the_session_begin_again(error, expected):
    """TensorFlow says that the step was cancelled if the server has been started again."""
    coordinator = tf.train.Coordinator()
    recover_cancelled_steps(coordinator)
    coordinator.raise_requested_exception()  # No step has failed.
    with pytest.raises(expected):
        try:
            raise error
        except Exception:
            coordinator.raise_requested_exception()
            raise
    with pytest.raises(expected), aborting_if_server_is_lost():
        raise error


def test_a_supervisor_accepts_an_optimizer_that_is_built_outside_of_the_devices():
    """It refuses reference variables without a device."""
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=False):
        with tf.device("/job:ps/task:0"):
            step = v1.train.get_or_create_global_step()
            weights = v1.get_variable("weights", initializer=[0.0])
        optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 2, 2)
        optimizer.apply_gradients([(tf.constant([1.0]), weights)], step)
        v1.train.Supervisor(
            graph=graph,
            is_chief=False,
            local_init_op=optimizer.local_step_init_op,
            ready_for_local_init_op=optimizer.ready_for_local_init_op,
        )
