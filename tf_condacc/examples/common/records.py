"""The records of trainings, from which the tables and pictures are made."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np


@dataclass
class History:
    """The record of a training with a chief, whose thread appends to each list in each step.

    Attributes:
        losses: Mean loss of the gradients in the step.
        accepted: Number of gradients in the step.
        dropped: Number of stale gradients dropped up to the step. The list is empty if the
            accumulator does not count them.
        accuracies: Pairs of a step and the accuracy on test examples. Empty if not measured.
        rows: Number of updated rows of each embedding. Empty if there is none.
        pushed: Number of gradients that the workers computed in total, set at the end.
        pending: Number of gradients that were not taken, set at the end.
        dropped_in_all: Number of stale gradients dropped in total, set at the end. None if the
            accumulator does not count them.
        seconds: Duration of the training, set at the end.
    """

    losses: list[float] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    pushed: int = 0
    pending: int = 0
    dropped_in_all: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Turn:
    """The record of a gradient that a worker applies itself.

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
class AsyncHistory:
    """The record of a training without a chief. The workers' threads append to `turns`.

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


@dataclass
class Run:
    """The record of a training with towers or replicas.

    Attributes:
        title: Name of the training.
        losses: Loss of each step.
        moments: Time at which each step ended, in seconds.
        accuracy: Accuracy on the test examples that `evaluate` returns.
        predicted: Accuracy on the test examples of the classes that `predict` yields.
        weights: Values of the variables before the first step and after each step. Empty if they
            are not recorded.
    """

    title: str
    losses: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    predicted: float = 0.0
    weights: list[dict[str, np.ndarray]] = field(default_factory=list)

    @property
    def step_seconds(self) -> float:
        """The median time of a step, without the first few."""
        return float(np.median(np.diff(self.moments[min(5, len(self.moments) - 2) :])))


@dataclass
class ClusterHistory:
    """The record of a training on a cluster, made by its chief.

    Attributes:
        start: Time at which the chief began, in seconds.
        moments: Seconds from the start to each measurement.
        steps: Global step at each measurement.
        losses: Loss on all training examples at each measurement.
        accuracies: Accuracy on the test examples at each measurement.
        dropped: Number of gradients that had been dropped at each measurement.
        faults: Pairs of an event, "killed" or "back", and the seconds from the start to it.
    """

    start: float
    moments: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    faults: list[tuple[str, float]] = field(default_factory=list)

    def add(self, step: int, loss: float, accuracy: float, dropped: int) -> None:
        """Adds a measurement."""
        self.moments.append(time.time() - self.start)
        self.steps.append(step)
        self.losses.append(float(loss))
        self.accuracies.append(float(accuracy))
        self.dropped.append(dropped)

    def line(self, last_step: int) -> str:
        """Returns the last measurement as a line of text."""
        return (
            f"step {self.steps[-1]:,} of {last_step:,}  loss {self.losses[-1]:.4f}  "
            f"accuracy {self.accuracies[-1]:.3f}  dropped {self.dropped[-1]:,}  "
            f"{self.moments[-1]:.1f} s"
        )

    def read_faults(self, path: Path) -> None:
        """Reads the faults since the start from a file with an event and a time in each line."""
        if path.exists():
            events = [line.split() for line in path.read_text().splitlines()]
            self.faults = [
                (name, float(at) - self.start) for name, at in events if float(at) > self.start
            ]

    @property
    def steps_per_second(self) -> list[float]:
        """The speed between each measurement and the one before; one entry less than there are."""
        seconds = np.maximum(np.diff(self.moments), 1e-6)
        return (np.diff(self.steps) / seconds).tolist()
