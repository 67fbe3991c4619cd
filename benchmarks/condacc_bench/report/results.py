"""A line of the results, and the computation of lines from samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from condacc_bench.report.goals import KI, MI, Goal, Limit, goal_of
from condacc_bench.rounds import Samples, times_better


@dataclass(frozen=True)
class Result:
    """A metric of a case: medians of both sides and the median of the ratios of the rounds.

    Attributes:
      scenario: Name of the scenario, such as D1.
      case: Description of the case.
      metric: Name of the metric, such as "cycle".
      parameters: The parameters that the case was made from.
      reference: Median of the other side, in seconds, per second or as the metric says.
      ours: Median of our side.
      ratio: How many times better our side is: the median over the rounds.
      quartiles: First and third quartile of the ratios. A single ratio is both.
      rounds: Number of rounds.
      against: Name of the other side.
      goal: The goal of the ratio, or the limit of our side, or None.
      curves: Values for a separate picture: for each side, the seconds of one apply after another,
          and of the take at the end.
    """

    scenario: str
    case: str
    metric: str
    parameters: Mapping[str, object]
    reference: float
    ours: float
    ratio: float
    quartiles: tuple[float, float]
    rounds: int
    against: str = "TensorFlow"
    goal: Goal | Limit | None = None
    curves: Mapping[str, Sequence[float]] | None = None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return self.goal.verdict(self.ours if isinstance(self.goal, Limit) else self.ratio)

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"verdict": self.verdict}


def compare(
    samples: Samples,
    ours: str,
    reference: str,
    metric: str,
    *,
    scenario: str,
    case: str,
    against: str = "TensorFlow",
    **fields: object,
) -> Result:
    """Returns the line that compares two of the cases that ran in the same rounds."""
    values, reference_values = samples[ours][metric], samples[reference][metric]
    ratios = times_better(metric, values, reference_values)
    low, median, high = _quartiles(ratios)
    theirs = statistics.median(reference_values)
    return Result(
        scenario=scenario,
        case=case,
        metric=metric,
        against=against,
        goal=goal_of(scenario, case, metric, against, theirs),
        reference=theirs,
        ours=statistics.median(values),
        ratio=median,
        quartiles=(low, high),
        rounds=len(values),
        **fields,
    )


def _quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, method="inclusive") if len(values) > 1 else values * 3


def in_words(size: int) -> str:
    """Returns a number of elements as text, such as 64K."""
    if size >= MI:
        return f"{size // MI}M"
    return f"{size // KI}K" if size >= KI else str(size)


def in_thousands(rows: int) -> str:
    """Returns a number of rows as text, such as 100K."""
    return f"{rows // 1000}K" if rows >= 1000 else str(rows)
