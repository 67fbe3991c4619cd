"""Trainings on clusters in this process, with workers that make their steps on threads."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.clusters import LocalCluster
from tests.support.sync_replicas_log import PushLog, check_weights
from tests.support.sync_replicas_program import NumberedModel
from tests.support.waiting import Background, until

v1 = tf.compat.v1
_numbers = itertools.count()


class OneProcess:
    """A server on its own, with which all workers share their variables."""

    def __init__(self) -> None:
        self._server = v1.train.Server.create_local_server()
        self.targets = [self._server.target] * 8
        self.ps_target = self._server.target

    def device(self, task: int) -> None:
        return None


@pytest.fixture(scope="session")
def two_ps() -> LocalCluster:
    """Returns two parameter servers and three workers. Servers cannot stop, so tests share them."""
    return LocalCluster(2, 3)


class Training:
    """Models of several workers that train together, and their sessions.

    Each training has a name of its own, under which its workers share their state. The other
    arguments are those of all models.
    """

    def __init__(
        self,
        place: Any,
        replicas: int,
        total: int,
        **arguments: Any,
    ) -> None:
        self.place = place
        self.log = PushLog()
        self._make = lambda task, **more: NumberedModel(
            task,
            replicas,
            total,
            self.log,
            device=place.device(task),
            **{"name": f"train{number}", **arguments, **more},
        )
        number = next(_numbers)
        self.models = [self._make(task) for task in range(total)]
        self.sessions: dict[int, Any] = {}
        self.running: list[Background] = []

    def new_model(self, task: int, **arguments: Any) -> NumberedModel:
        """Returns the model of a worker that was started again."""
        self.models[task] = self._make(task, **arguments)
        return self.models[task]

    def start(self, *tasks: int, last_step: int | None = None, **arguments: Any) -> None:
        """Makes the sessions of some workers, or of all; the chief's first."""
        for task in tasks or range(len(self.models)):
            hooks = [] if last_step is None else [v1.train.StopAtStepHook(last_step=last_step)]
            self.sessions[task] = self.models[task].session(
                self.place.targets[task], hooks, **arguments
            )

    def step(self, task: int) -> int:
        model = self.models[task]
        with model.graph.as_default():  # For hooks that save checkpoints.
            return model.run(self.sessions[task])

    def steps_on_thread(self, task: int, count: int = 1) -> Background:
        """Makes steps on a thread."""

        def make() -> None:
            for _ in range(count):
                self.step(task)

        return self.on_thread(make)

    def train_on_thread(self, task: int, count: int = 10**9) -> Background:
        """Makes steps on a thread until the session should stop, and closes it."""

        def train() -> None:
            with self.sessions[task] as session:
                for _ in range(count):
                    if session.should_stop():
                        break
                    self.models[task].run(session)

        return self.on_thread(train)

    def on_thread(self, call: Callable[[], None]) -> Background:
        self.running.append(Background(call))
        return self.running[-1]

    def step_until_ended(self, task: int, other: Background) -> None:
        """Makes steps until those on a thread have ended."""
        while not other.done:
            self.step(task)
        other.result()

    def join(self) -> None:
        """Waits for all threads; fails if one has failed, although others may wait for it."""

        def have_ended() -> bool:
            ended = [each for each in self.running if each.done]
            for each in ended:
                each.result()
            return len(ended) == len(self.running)

        until(have_ended, "all workers have made their steps")

    def num_pushes(self, task: int, name: str, outcome: int | None = None) -> int:
        return sum(
            event["kind"] == "push"
            and event["task"] == task
            and event["var"].endswith(f"_{name}")
            and outcome in (None, event["outcome"])
            for event in list(self.log.events)
        )

    def values(self, fetches: Callable[[NumberedModel], Any]) -> Any:
        """Returns values of the last worker's graph, read in a session without hooks."""
        model = self.models[-1]
        with v1.Session(self.place.ps_target, graph=model.graph) as session:
            return session.run(fetches(model))

    def gate_state(self) -> Any:
        """Returns the state of the gate."""
        return self.values(lambda model: model.gate_state)

    def await_state(self, reached: Callable[[Any], bool]) -> None:
        """Waits until the gate is in some state."""
        model = self.models[-1]
        with v1.Session(self.place.ps_target, graph=model.graph) as session:
            until(
                lambda: reached(session.run(model.gate_state)),
                "the gate is in some state",
                lambda: f"it is at {session.run(model.gate_state)}\n{self._failures()}",
            )

    def _failures(self) -> str:
        failed = [each.error() for each in self.running if each.done]
        return "\n".join(str(error)[-300:] for error in failed if error is not None)

    def weights(self) -> dict[str, float]:
        """Returns the weights by the names of their variables."""
        model = self.models[-1]
        with v1.Session(self.place.ps_target, graph=model.graph) as session:
            return model.weights(session)

    def check(self, base: dict[str, float] | None = None) -> dict[str, int]:
        """Checks that the weights are what the logs say."""
        return check_weights(self.log.events, self.models[-1].replicas, self.weights(), base)

    def close(self) -> None:
        """Closes the sessions, and waits for the steps that this has ended."""
        for session in self.sessions.values():
            with contextlib.suppress(Exception):
                session.close()
        for each in self.running:
            each.error()


@pytest.fixture
def training() -> Iterator[Callable[..., Training]]:
    """Makes trainings, and closes their sessions."""
    made: list[Training] = []

    def make(*args: Any, **kwargs: Any) -> Training:
        made.append(Training(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()
