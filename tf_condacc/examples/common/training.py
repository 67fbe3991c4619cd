"""A training with one thread for the chief and one for each worker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.common.rounds import Chief

Feed = dict[tf.Tensor, Any]


@dataclass(frozen=True)
class TrainingGraph:
    """The graph of a training.

    Sessions on one server share its variables, accumulators and queues.

    Attributes:
        graph: The graph.
        pushes: For each worker, the operation that makes one turn.
        chief: The operations and tensors of the chief.
        initialize: Operation that initializes the variables.
    """

    graph: tf.Graph
    pushes: Sequence[tf.Operation]
    chief: Chief
    initialize: tf.Operation


@dataclass
class History:
    """The record of a training. The chief's thread appends one entry per step to each list.

    Attributes:
        losses: Mean loss of the gradients in the step.
        accepted: Number of gradients in the step.
        dropped: Number of stale gradients dropped up to the step. The list is empty if the
            accumulator does not count them.
        pushed: Number of gradients that the workers computed in total, set at the end.
        pending: Number of gradients that were not taken, set at the end.
        dropped_in_all: Number of stale gradients dropped in total, set at the end. None if the
            accumulator does not count them.
        seconds: Duration of the training, set at the end.
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
    """Functions that are called during a training.

    Attributes:
        on_progress: Called about ten times per second, in the thread of the caller.
        after_step: Called after each step, with the chief's session and the values of the step.
        at_end: Called with the chief's session, when all workers have ended.
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
        training: The graph.
        feeds: For each worker, the feed dictionaries of its batches.
        steps: Number of steps of the chief.
        history: The record of the training, to which entries are added.
        observers: Functions to call during the training.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All threads have ended.
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
    """The thread of a worker, which pushes gradients until its token queue is closed."""

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
    """The thread of the chief, which makes all steps and then closes the token queues."""

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
