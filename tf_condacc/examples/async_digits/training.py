"""The training of the classifier. Runs the workers' threads and records the training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.async_digits import graph, schedule
from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.digits import data

NAMES = ("dropping", "not dropping")  # The names of the two trainings.
_EVALUATE_EVERY = 20  # Number of turns.


@dataclass(frozen=True)
class Settings:
    """The settings of a training.

    Attributes:
        num_workers: Number of workers. The module ``schedule`` determines their speed.
        staleness: Highest number of steps by which gradients may be behind and are still applied.
        steps: Number of gradients that the workers compute in total, applied or dropped.
        batch_size: Number of examples in a batch. Each worker draws batches from all examples, in
            an order of its own.
        learning_rate: Learning rate of the workers' momentum optimizer.
        momentum: Momentum of that optimizer.
        seed: Seed of the data split, the batches, the weights and the schedule.
    """

    num_workers: int = 4
    staleness: int = 3
    steps: int = 300
    batch_size: int = 32
    learning_rate: float = 0.03
    momentum: float = 0.9
    seed: int = 1

    def of_both(self) -> tuple[Settings, Settings]:
        """Returns these settings, and a copy with a limit that no gradient exceeds."""
        return self, replace(self, staleness=self.steps)


@dataclass(frozen=True)
class Turn:
    """The record of a gradient.

    Attributes:
        worker: Index of the worker that computed it, starting with 0.
        local_step: Global step when its computation began.
        step: Global step when the optimizer decided about it.
        accepted: Whether it was applied.
        loss: Loss of its batch.
    """

    worker: int
    local_step: int
    step: int
    accepted: bool
    loss: float

    @property
    def staleness(self) -> int:
        """The number of steps made during the computation of the gradient."""
        return self.step - self.local_step


@dataclass
class History:
    """The record of a training. The threads of the training append to the lists.

    Attributes:
        turns: The turns, in the order in which they ended.
        accuracies: Pairs of a number of turns and the accuracy on the test images after them.
        counts: Numbers of accepted and dropped gradients of each worker, set at the end.
        seconds: Duration of the training, set at the end.
    """

    turns: list[Turn] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def losses(self) -> list[float]:
        """The loss of each turn."""
        return [turn.loss for turn in self.turns]

    @property
    def dropped(self) -> list[int]:
        """The number of gradients dropped up to each turn."""
        return list(accumulate(int(not turn.accepted) for turn in self.turns))


def train(
    settings: Settings, on_progress: Callable[[History], None] = lambda history: None
) -> History:
    """Trains the classifier, and returns the record of the training.

    Args:
        settings: The settings of the training.
        on_progress: Function that the calling thread calls about ten times per second.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All threads have ended.
    """
    examples, test = data.load(settings.seed)
    built = graph.build(
        settings.num_workers,
        settings.staleness,
        settings.learning_rate,
        settings.momentum,
        settings.seed,
    )
    history = History()
    with Cluster(built.graph) as cluster:
        session = cluster.new_session()
        session.run(built.initialize)
        start = time.monotonic()
        for number, worker in enumerate(built.workers):
            batches = data.batches(examples, settings.batch_size, settings.seed + number)
            loop = _WorkerLoop(number, worker, batches, history, cluster.new_session())
            cluster.start(loop.run)
        clock = _Clock(built, test, settings, history, cluster.new_session())
        cluster.start(clock.run)
        cluster.wait(lambda: on_progress(history))
        history.seconds = time.monotonic() - start
        for accepted, dropped in session.run([worker.counts for worker in built.workers]):
            history.counts.append((int(accepted), int(dropped)))
    on_progress(history)
    return history


class _WorkerLoop:
    """The thread of a worker, which takes turns until the training ends."""

    def __init__(
        self,
        number: int,
        worker: graph.Worker,
        batches: Iterator[data.Examples],
        history: History,
        session: v1.Session,
    ):
        self._number = number
        self._worker = worker
        self._batches = batches
        self._history = history
        self._session = session

    def run(self) -> None:
        num_dropped = 0
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for batch in self._batches:
                turn = self._session.run(self._worker.turn, self._worker.inputs.feed(batch))
                accepted = turn["num_dropped"] == num_dropped
                num_dropped = turn["num_dropped"]
                self._keep(turn, bool(accepted))

    def _keep(self, turn: dict[str, Any], accepted: bool) -> None:
        local_step, step = int(turn["local_step"]), int(turn["step"])
        self._history.turns.append(
            Turn(self._number, local_step, step, accepted, float(turn["loss"]))
        )


class _Clock:
    """The thread that lets workers finish in the order of the schedule, and evaluates the model.

    It continues when the worker has ended its turn and has computed the gradients of the next. The
    steps of all gradients, and the training, therefore do not depend on the speed of the machine.
    """

    def __init__(
        self,
        built: graph.AsyncGraph,
        test: data.Examples,
        settings: Settings,
        history: History,
        session: v1.Session,
    ):
        self._built = built
        self._test_feed = built.test_inputs.feed(test)
        self._settings = settings
        self._history = history
        self._session = session

    def run(self) -> None:
        machines, settings = self._built.machines, self._settings
        for _ in range(settings.num_workers):
            self._session.run(machines.wait_for_gradients)
        order = schedule.finishes(settings.num_workers, settings.seed)
        for turn, worker in enumerate(islice(order, settings.steps), start=1):
            self._session.run(machines.finish[worker])
            self._session.run(machines.wait_for_gradients)
            if turn % _EVALUATE_EVERY == 0 or turn == settings.steps:
                accuracy = self._session.run(self._built.test_accuracy, self._test_feed)
                self._history.accuracies.append((turn, float(accuracy)))
        self._session.run(machines.stop)
