"""Timing in rounds, and the statistics of it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

# No net duration below these is told from zero: about what a call into a session varies by, and
# by how much two runs of the same thing differ.
RESOLUTION_SECONDS = 5e-7
RESOLUTION_OF_GROSS = 0.05

Samples = dict[str, dict[str, list[float]]]  # of each case and metric, one value a round


class Case(Protocol):
    """Something that one implementation does, ready to be timed."""

    def measure(self) -> dict[str, float]:
        """Does it and returns each metric: seconds, or a rate if its name ends in "/s"."""

    def close(self) -> None:
        """Frees what the case holds."""


@dataclass(frozen=True)
class Budget:
    """How many rounds to run: at least and at most so many, and no new one after ``seconds``."""

    min_rounds: int = 5
    max_rounds: int = 41
    seconds: float = 5.0


def run_rounds(cases: Mapping[str, Case], budget: Budget) -> Samples:
    """Measures the cases round by round, each round starting with the next case."""
    names = list(cases)
    samples: Samples = {name: {} for name in names}
    start = time.perf_counter()
    for number in range(budget.max_rounds):
        if number >= budget.min_rounds and time.perf_counter() - start > budget.seconds:
            break
        first = number % len(names)
        for name in names[first:] + names[:first]:
            for metric, value in cases[name].measure().items():
                samples[name].setdefault(metric, []).append(value)
    return samples


def close(cases: Mapping[str, Case]) -> None:
    """Closes all cases and frees their memory, before the next ones ask for theirs."""
    for case in cases.values():
        case.close()
    gc.collect()


def times_better(metric: str, values: list[float], reference: list[float]) -> float:
    """Median over the rounds of how many times better ``values`` are than ``reference``."""
    if metric.endswith("/s"):
        return statistics.median(v / r for v, r in zip(values, reference, strict=True))
    return statistics.median(r / v for v, r in zip(values, reference, strict=True))


def seconds_for(action: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def net(gross: float, base: float) -> float:
    """``gross`` without ``base``, at least what can be told from zero."""
    return max(gross - base, RESOLUTION_SECONDS, RESOLUTION_OF_GROSS * gross)
