"""One line of the result, and how lines come from samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from condacc_bench.goals import KI, MI, Goal
from condacc_bench.rounds import Samples, times_better


@dataclass(frozen=True)
class Result:
    """A metric of a case: medians of both sides and the median of the ratios of the rounds.

    Attributes:
      scenario: such as D1.
      case: what was measured, in words.
      metric: such as "cycle".
      parameters: what the case was made from.
      reference: median of the side compared with, in seconds or per second.
      ours: median of ours.
      ratio: how many times better ours is.
      rounds: how many ratios it is the median of.
      goal: what it is measured by, if anything.
      against: what is compared with.
    """

    scenario: str
    case: str
    metric: str
    parameters: Mapping[str, object]
    reference: float
    ours: float
    ratio: float
    rounds: int
    goal: Goal | None = None
    against: str = field(default="TensorFlow")

    @property
    def verdict(self) -> str:
        return self.goal.verdict(self.ratio) if self.goal else ""

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"verdict": self.verdict}


def compare(
    samples: Samples,
    ours: str,
    reference: str,
    metric: str,
    **fields: object,
) -> Result:
    """Makes the line that compares two of the cases that ran in the same rounds."""
    values, reference_values = samples[ours][metric], samples[reference][metric]
    return Result(
        metric=metric,
        reference=statistics.median(reference_values),
        ours=statistics.median(values),
        ratio=times_better(metric, values, reference_values),
        rounds=len(values),
        **fields,
    )


def in_words(size: int) -> str:
    """A number of elements, such as 64K."""
    if size >= MI:
        return f"{size // MI}M"
    return f"{size // KI}K" if size >= KI else str(size)
