"""A training: one thread for the chief and one for each worker, each with its own session."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.common.rounds import Chief

v1 = tf.compat.v1

Feed = dict[tf.Tensor, Any]


@dataclass(frozen=True)
class TrainingGraph:
    """The whole graph. Sessions on one server share its variables, accumulators and queues.

    Attributes:
      graph: that everything is in.
      pushes: for each worker the operation that is its turn.
      chief: what the chief runs.
      initialize: makes the variables.
    """

    graph: tf.Graph
    pushes: Sequence[tf.Operation]
    chief: Chief
    initialize: tf.Operation


@dataclass
class History:
    """What happened. The lists have one entry per step; the chief's thread appends to them.

    Attributes:
      losses: mean loss over the gradients that went into the step.
      accepted: how many gradients went into the step.
      dropped: stale gradients dropped up to the step; empty where the accumulator counts none.
      pushed: gradients that the workers computed and pushed in all, set at the end.
      pending: gradients that came after the last step and were never taken, set at the end.
      dropped_in_all: stale gradients dropped in all, set at the end; None where not counted.
      seconds: duration of the training, set at the end.
    """

    losses: list[float] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    pushed: int = 0
    pending: int = 0
    dropped_in_all: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Observers:
    """Who watches a training.

    Attributes:
      on_progress: called about ten times a second, in the thread of the caller.
      after_step: called after each step with the chief's session and what the step has reported.
      at_end: called with the chief's session when all workers have ended.
    """

    on_progress: Callable[[], None] = lambda: None
    after_step: Callable[[v1.Session, dict[str, Any]], None] = lambda session, update: None
    at_end: Callable[[v1.Session], None] = lambda session: None


def run(
    training: TrainingGraph,
    feeds: Sequence[Iterator[Feed]],
    steps: int,
    history: History,
    observers: Observers,
) -> None:
    """Runs a training.

    Args:
      training: its graph.
      feeds: for each worker its batches.
      steps: how many updates the chief makes.
      history: is filled.
      observers: are told.

    Raises:
      KeyboardInterrupt: on Ctrl-C, when all threads have ended.
    """
    with Cluster(training.graph) as cluster:
        session = cluster.new_session()
        session.run(training.initialize)
        session.run(training.chief.start)
        start = time.monotonic()
        workers = []
        for push, batches in zip(training.pushes, feeds, strict=True):
            workers.append(_WorkerLoop(push, batches, cluster.new_session()))
            cluster.start(workers[-1].run)
        chief = _ChiefLoop(training.chief, steps, history, session, observers.after_step)
        cluster.start(chief.run)
        cluster.wait(observers.on_progress)
        history.seconds = time.monotonic() - start
        history.pushed = sum(worker.pushed for worker in workers)
        rest = session.run(training.chief.rest)
        history.pending = int(rest["pending"])
        if "dropped" in rest:
            history.dropped_in_all = int(rest["dropped"])
        observers.at_end(session)
    observers.on_progress()


class _WorkerLoop:
    """Pushes gradients until the token queue is closed."""

    def __init__(self, push: tf.Operation, batches: Iterator[Feed], session: v1.Session):
        self._push = push
        self._batches = batches
        self._session = session
        self.pushed = 0

    def run(self) -> None:
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for feed in self._batches:
                self._session.run(self._push, feed)
                self.pushed += 1


class _ChiefLoop:
    """Takes and applies the means, step by step, then closes the token queues."""

    def __init__(
        self,
        chief: Chief,
        steps: int,
        history: History,
        session: v1.Session,
        after_step: Callable[[v1.Session, dict[str, Any]], None],
    ):
        self._chief = chief
        self._steps = steps
        self._history = history
        self._session = session
        self._after_step = after_step

    def run(self) -> None:
        history = self._history
        for _ in range(self._steps):
            update = self._session.run(self._chief.update)
            history.accepted.append(int(update["accepted"]))
            if "dropped" in update:
                history.dropped.append(int(update["dropped"]))
            self._after_step(self._session, update)
            history.losses.append(float(update["loss"]))
        self._session.run(self._chief.finish)
