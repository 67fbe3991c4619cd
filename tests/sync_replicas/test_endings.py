"""Tests of how a chief leaves its loop: after an error, training waits for the next chief."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.support.waiting import PATIENCE_SECS, in_threads
from tests.sync_replicas.test_programs import STEPS, Program, check

v1 = tf.compat.v1
_names = itertools.count()
_FAILS_AFTER = 2


class BadRecordError(Exception):
    """The error of a program."""


class Failing(v1.train.SessionRunHook):
    """A hook that fails in one of its methods."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._num_runs = 0

    def before_run(self, run_context: Any) -> None:
        self._num_runs += 1
        if self._method == "before_run" and self._num_runs > _FAILS_AFTER:
            raise BadRecordError

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._method == "after_run" and self._num_runs == _FAILS_AFTER:
            raise BadRecordError
        if self._method == "end" and self._num_runs == _FAILS_AFTER:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        if self._method == "end":
            raise BadRecordError


def stop_by_thread(session: Any) -> None:
    """Stops the session as its input thread does that has failed, between two steps."""
    coordinator = session._coordinated_creator.coord
    with contextlib.suppress(BadRecordError), coordinator.stop_on_exception():
        raise BadRecordError
    assert session.should_stop()


def raise_error(session: Any) -> None:
    raise BadRecordError


def exit_with_status(session: Any) -> None:
    sys.exit(3)


# What happens to a chief: the hooks before and after that of the optimizer, and what its loop does.
FAILURES: dict[str, tuple[list[Any], list[Any], Callable[[Any], None] | None]] = {
    "its thread": ([], [], stop_by_thread),
    "its loop": ([], [], raise_error),
    "exit": ([], [], exit_with_status),
    "a hook before a step": ([], ["before_run"], None),
    "a hook after a step": (["after_run"], [], None),
    "the end of an earlier hook": (["end"], [], None),
    "the end of a later hook": ([], ["end"], None),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_after_an_error_of_the_chief_the_next_one_goes_on(two_ps, failure):
    """The worker waits, and ends when the next chief ends the training."""
    before, after, leave = FAILURES[failure]
    name = f"ending{next(_names)}"
    first, worker, second = (Program(two_ps, task, name) for task in (0, 1, 0))
    hooks = [*map(Failing, before), first.hook(), *map(Failing, after)]
    of_first, of_worker = first.monitored(*hooks), worker.monitored(worker.hook())
    ended = threading.Event()

    def train_worker() -> None:
        with of_worker as session:
            while not session.should_stop():
                session.run(worker.train)
        ended.set()

    def train_first() -> None:
        with pytest.raises((BadRecordError, SystemExit)), of_first as session:
            for _ in itertools.takewhile(lambda _: not session.should_stop(), itertools.count()):
                session.run(first.train)
                if session._tf_sess().run(first.step) >= _FAILS_AFTER and leave is not None:
                    leave(session)

    def train_second() -> None:
        in_threads(train_first)
        # The worker must not take the error for the end. `check` finds its gradient in all updates.
        assert not ended.is_set()
        with second.monitored(second.hook()) as session:
            while not session.should_stop():
                session.run(second.train)

    in_threads(train_worker, train_second)
    check(worker, STEPS)


@pytest.mark.parametrize("how", ["hook", "coordinator", "end of input", "exit", "handler"])
def test_a_normal_end_of_the_chief_ends_the_training_of_all(two_ps, how):
    """The chief ends first, so that the worker ends only if it is told."""
    name = f"ending{next(_names)}"
    chief, worker = (Program(two_ps, task, name) for task in (0, 1))

    def train(program: Program, session: Any) -> None:
        with contextlib.suppress(SystemExit), session:
            while not session.should_stop():
                session.run(program.train)
                step = session._tf_sess().run(program.step)
                if not program.is_chief or step < _FAILS_AFTER or how == "hook":
                    continue
                if how == "coordinator":
                    session._coordinated_creator.coord.request_stop()
                elif how == "end of input":
                    raise tf.errors.OutOfRangeError(None, None, "end of the input")
                elif how == "exit":
                    sys.exit(0)
                elif how == "handler":
                    break

    # The worker's session would wait for 30 s if it were made first.
    session_made = threading.Barrier(2, timeout=PATIENCE_SECS)

    def train_chief() -> None:
        stop = [v1.train.StopAtStepHook(last_step=_FAILS_AFTER)] if how == "hook" else []
        session = chief.monitored(chief.hook(), *stop)
        for _ in (chief, worker):
            session_made.wait()
        train(chief, session)

    def train_where_an_error_is_handled() -> None:
        try:
            raise BadRecordError
        except BadRecordError:
            train_chief()

    def train_worker() -> None:
        session_made.wait()
        session = worker.monitored(worker.hook())
        session_made.wait()
        train(worker, session)

    in_threads(train_where_an_error_is_handled if how == "handler" else train_chief, train_worker)
    with v1.Session(worker.target, graph=worker.graph) as session:
        assert _FAILS_AFTER <= session.run(worker.step) < STEPS


@pytest.mark.parametrize("error", [None, BadRecordError(), KeyboardInterrupt()])
def test_a_supervisor_ends_the_training_only_without_an_error(two_ps, error):
    """It does not pass the errors on that no program handles, such as that of Ctrl-C."""
    chief = Program(two_ps, 0, f"ending{next(_names)}", replicas=1)
    supervisor = chief.supervisor()

    def train() -> None:
        with supervisor.managed_session(chief.target, start_standard_services=False) as session:
            supervisor.start_queue_runners(session, [chief.runner])
            for _ in range(_FAILS_AFTER):
                session.run(chief.train)
            if error is not None:
                raise error

    # A Supervisor raises the errors that it was told of.
    with (
        chief.graph.as_default(),
        contextlib.nullcontext() if error is None else pytest.raises(type(error)),
    ):
        train()
    with v1.Session(chief.target, graph=chief.graph) as session:
        assert not session.run(chief.gate_state.open)
        # The step of a worker ends, and that of the chief's process is told of its error.
        session.run(chief.local_init)
        expected = tf.errors.OutOfRangeError if error is None else tf.errors.CancelledError
        with pytest.raises(expected):
            session.run(chief.train)
