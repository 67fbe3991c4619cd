"""Tests of programs that start the parts of a chief twice, late, or in other processes.

All of them train with TensorFlow's own class.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.many_threads import join_queue_runners
from tests.support.sync_replicas_program import QUIET, own_step
from tests.support.waiting import PATIENCE_SECS, in_threads

v1 = tf.compat.v1
_names = itertools.count()
STEPS = 5


class Program:
    """The program of one worker. Its gradient is 10 to the power of the worker's number.

    Args:
        place: Where it trains.
        task: Number of the worker.
        name: Name of the optimizer, and prefix of the variables.
        replicas: Number of gradients in a round, and of workers.
    """

    def __init__(self, place: Any, task: int, name: str, replicas: int = 2) -> None:
        self.target = place.targets[task]
        self.is_chief = task == 0
        self.graph = tf.Graph()
        with self.graph.as_default(), v1.device(place.device(task)):
            self.step = own_step(f"{name}_step")
            self.weight = v1.get_variable(f"{name}_w", initializer=tf.zeros([], tf.float64))
            self.optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(-replicas), replicas, name=name
            )
            gradient = tf.constant(10.0**task, tf.float64)
            self.train = self.optimizer.apply_gradients([(gradient, self.weight)], self.step)
            self.init = v1.variables_initializer([self.step, self.weight])
            self.local_init = v1.local_variables_initializer()
            self.gate_state = self.optimizer._graph.gate.state()
            self.runner = self.optimizer.get_chief_queue_runner()
            self.tokens = self.optimizer.get_init_tokens_op()

    def hook(self) -> Any:
        return self.optimizer.make_session_run_hook(self.is_chief, num_tokens=0)

    def monitored(self, *hooks: Any) -> Any:
        """Returns a monitored session; the chief's must be made first."""
        with self.graph.as_default():
            return v1.train.MonitoredTrainingSession(
                self.target,
                self.is_chief,
                hooks=[*hooks, v1.train.StopAtStepHook(last_step=STEPS)],
                **QUIET,
            )

    def supervisor(self, has_init_op: bool = True) -> Any:
        """Returns a Supervisor of the chief, as programs for TensorFlow 0.12 or for later ones."""
        of_optimizer = {
            "local_init_op": self.optimizer.chief_init_op,
            "ready_for_local_init_op": self.optimizer.ready_for_local_init_op,
        }
        with self.graph.as_default():
            return v1.train.Supervisor(
                graph=self.graph,
                init_op=self.init,
                **of_optimizer if has_init_op else {},
                recovery_wait_secs=1,
                stop_grace_secs=PATIENCE_SECS,
                global_step=self.step,
                summary_op=None,
            )

    def session(self) -> Any:
        """Returns a plain session in which the variables are initialized."""
        session = v1.Session(self.target, graph=self.graph)
        if self.is_chief:
            session.run(self.init)
        session.run(self.local_init)
        return session


@pytest.fixture
def pair(two_ps) -> list[Program]:
    """Returns a chief and a worker."""
    name = f"program{next(_names)}"
    return [Program(two_ps, task, name) for task in (0, 1)]


def train_both(pair: list[Program], sessions: list[Any]) -> None:
    """Trains until both sessions have ended, and checks that each round had both gradients."""

    def train(program: Program, session: Any) -> None:
        with session:
            while not session.should_stop():
                session.run(program.train)

    in_threads(*(lambda p=p, s=s: train(p, s) for p, s in zip(pair, sessions, strict=True)))
    check(pair[1], STEPS)


def check(program: Program, steps: int) -> None:
    with v1.Session(program.target, graph=program.graph) as session:
        assert session.run([program.step, program.weight]) == [steps, 11.0 * steps]


@pytest.mark.parametrize("kind", ["same", "two"])
def test_a_hook_that_comes_twice_trains_as_one(pair, kind):
    sessions = []
    for program in pair:
        hook = program.hook()
        sessions.append(program.monitored(hook, hook if kind == "same" else program.hook()))
    train_both(pair, sessions)


def idle_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "idle" in message]


def test_a_runner_of_the_collection_beside_the_hook_of_each_worker(pair, caplog):
    sessions = []
    for program in pair:
        with program.graph.as_default():
            v1.train.add_queue_runner(program.runner)
        sessions.append(program.monitored(program.hook()))
    train_both(pair, sessions)
    (line,) = idle_messages(caplog)
    assert pair[0].optimizer.get_name() in line


@contextlib.contextmanager
def runners() -> Iterator[Callable[[Program, Any], None]]:
    """Yields a function that starts the queue runner of a program; all end with the context."""
    coordinator = tf.train.Coordinator()
    yield lambda program, session: program.runner.create_threads(
        session, coordinator, daemon=True, start=True
    )
    coordinator.request_stop()
    coordinator.join(stop_grace_period_secs=PATIENCE_SECS)


def step_together(pair: list[Program], sessions: Iterable[Any], step: int) -> None:
    """Makes a step of both workers, which is the only one of its round."""
    in_threads(*(lambda p=p, s=s: s.run(p.train) for p, s in zip(pair, sessions, strict=True)))
    check(pair[0], step)


@pytest.mark.parametrize("has_init_op", [True, False])
def test_every_worker_starts_the_runner_without_hooks(pair, caplog, has_init_op):
    chief, worker = pair
    with chief.session() as of_chief, worker.session() as of_worker, runners() as start:
        if has_init_op:
            of_chief.run(chief.optimizer.chief_init_op)
        start(chief, of_chief)
        if has_init_op:
            of_worker.run(worker.optimizer.local_step_init_op)
        start(worker, of_worker)
        for step in range(1, STEPS + 1):
            step_together(pair, (of_chief, of_worker), step)
    assert len(idle_messages(caplog)) == 1


def test_default_tokens_let_a_program_without_init_op_train_with_fewer_workers(pair):
    first = pair[0]
    with first.session() as session, runners() as start:
        start(first, session)
        for program in reversed(pair):  # Those of the worker have no effect.
            with v1.Session(program.target, graph=program.graph) as other:
                other.run(program.tokens)
        while session.run(first.step) < 2:
            session.run(first.train)


def test_a_runner_that_only_another_worker_starts_makes_the_updates(pair):
    chief, worker = pair
    with chief.session() as of_chief, worker.session() as of_worker, runners() as start:
        of_chief.run(chief.optimizer.chief_init_op)
        of_worker.run(worker.optimizer.local_step_init_op)
        start(worker, of_worker)
        for step in range(1, STEPS + 1):
            if step == STEPS:  # The chief's own runner comes late.
                start(chief, of_chief)
            step_together(pair, (of_chief, of_worker), step)


def test_no_thread_outlives_the_coordinator(two_ps):
    program = Program(two_ps, 0, f"program{next(_names)}", replicas=1)
    with program.session() as session:
        session.run(program.optimizer.chief_init_op)
        coordinator = tf.train.Coordinator()
        threads = program.runner.create_threads(session, coordinator, start=True)
        for _ in range(3):
            session.run(program.train)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=PATIENCE_SECS)
        assert not any(thread.is_alive() for thread in threads)


def test_no_thread_of_a_hook_outlives_the_coordinator(pair):
    join_queue_runners()  # Those of earlier tests.
    before = set(threading.enumerate())
    train_both(pair, [program.monitored(program.hook()) for program in pair])
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in names if name.startswith(("Reports", "Queue", "SyncReplicas"))]
