"""Whether towers learn what one tower learns on the whole batch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers import mirrored, runs
from tf_condacc.examples.towers.runs import Run, Settings

TOLERANCE = 1e-4  # of a weight, after all steps: many times what float32 rounds off in one


@dataclass(frozen=True)
class Difference:
    """How far the weights of one run are from those of one tower on the whole batch.

    Attributes:
      title: what trained.
      largest: of each step, the largest difference of any weight; the first entry is the start.
    """

    title: str
    largest: list[float]

    @property
    def is_tolerable(self) -> bool:
        """Whether the weights have stayed the same but for rounding."""
        return max(self.largest) <= TOLERANCE


def compare(settings: Settings, train: Examples) -> tuple[list[Difference], float]:
    """Trains in all ways, from the same weights on the same batches.

    Returns:
      The differences, and how far the weights have moved from where they started.
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
