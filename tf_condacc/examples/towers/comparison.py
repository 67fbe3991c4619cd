"""A comparison of the weights that several towers learn with those that one tower learns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers import mirrored, runs
from tf_condacc.examples.towers.runs import Run, Settings

# The highest tolerated difference of a weight after all steps. Rounding errors of a single step are
# much smaller.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """The difference between the weights of a run and those of one tower on the whole batch.

    Attributes:
        title: Name of the run.
        largest: The largest difference of a weight before the first step and after each step.
    """

    title: str
    largest: list[float]

    @property
    def is_tolerable(self) -> bool:
        """Whether the weights differ by no more than rounding errors."""
        return max(self.largest) <= TOLERANCE


def compare(settings: Settings, train: Examples) -> tuple[list[Difference], float]:
    """Trains in all ways, from the same initial weights and with the same batches.

    Args:
        settings: The settings of the trainings.
        train: The training examples.

    Returns:
        The differences of all runs, and the largest change of a weight in the training.
    """
    batches = list(itertools.islice(runs.batches_of(train, settings), settings.compared_steps))
    whole = runs.train_and_watch(1, settings, batches)
    others = []
    for number in settings.towers:
        if number > 1:
            others.append(runs.train_and_watch(number, settings, batches))
            others.append(mirrored.train(number, settings, batches, whole.weights[0]))
    moved = _distance(whole.weights[0], whole.weights[-1])
    return [_difference(other, whole) for other in others], moved


def _difference(run: Run, whole: Run) -> Difference:
    pairs = zip(run.weights, whole.weights, strict=True)
    return Difference(run.title, [_distance(ours, theirs) for ours, theirs in pairs])


def _distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    return max(float(np.max(np.abs(one[name] - other[name]))) for name in other)
