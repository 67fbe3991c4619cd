"""The training of the classifier: the workers' threads, and what is kept of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Any

import tensorflow as tf

from tf_condacc.examples.async_digits import graph, schedule
from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.digits import data

v1 = tf.compat.v1

NAMES = ("dropping", "not dropping")  # of the two trainings
_EVALUATE_EVERY = 20  # turns


@dataclass(frozen=True)
class Settings:
    """What to train and how.

    Attributes:
      num_workers: how many workers train; ``schedule`` says how fast they are.
      staleness: how many steps behind gradients may be, and are still applied.
      steps: how many gradients the workers finish in all, whether they are applied or dropped.
      batch_size: examples in a batch. Every worker draws from all of them, in an order of its own.
    """

    num_workers: int = 4
    staleness: int = 3
    steps: int = 300
    batch_size: int = 32
    learning_rate: float = 0.03
    momentum: float = 0.9
    seed: int = 1

    def of_both(self) -> tuple[Settings, Settings]:
        """These, and the same with a limit that no gradient exceeds."""
        return self, replace(self, staleness=self.steps)


@dataclass(frozen=True)
class Turn:
    """What became of a gradient.

    Attributes:
      worker: that computed it, from 0.
      local_step: the global step when its computation began.
      step: the global step when it was decided on.
      accepted: whether it was applied.
      loss: of its batch.
    """

    worker: int
    local_step: int
    step: int
    accepted: bool
    loss: float

    @property
    def staleness(self) -> int:
        return self.step - self.local_step


@dataclass
class History:
    """What happened. The threads of the training append to the lists.

    Attributes:
      turns: in the order in which they ended.
      accuracies: (turns so far, accuracy on the test images), every few turns and at the end.
      counts: of each worker, how many gradients its optimizer has accepted and dropped; set at the
        end.
      seconds: duration of the training, set at the end.
    """

    turns: list[Turn] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def losses(self) -> list[float]:
        return [turn.loss for turn in self.turns]

    @property
    def dropped(self) -> list[int]:
        """Gradients dropped up to each turn."""
        return list(accumulate(int(not turn.accepted) for turn in self.turns))


def train(
    settings: Settings, on_progress: Callable[[History], None] = lambda history: None
) -> History:
    """Trains the classifier and returns what happened.

    Args:
      settings: what to train and how.
      on_progress: called about ten times a second, in the calling thread.

    Raises:
      KeyboardInterrupt: on Ctrl-C, when all threads have ended.
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
        for counts in session.run([worker.counts for worker in built.workers]):
            history.counts.append(tuple(map(int, counts)))
    on_progress(history)
    return history


class _WorkerLoop:
    """Takes turns until there are no more."""

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
    """Lets workers finish in the order of the schedule, and looks at what has been learned.

    It goes on when the worker has ended its turn and has gradients for the next one. So each
    gradient is from the same step, and the training the same, however fast the machine is.
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
