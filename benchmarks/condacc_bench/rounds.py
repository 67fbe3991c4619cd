"""Timing in rounds, and its statistics."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

# A net duration below these cannot be distinguished from zero. They are about the variation of a
# call of a session, and the variation between two runs of the same computation.
RESOLUTION_SECONDS = 5e-7
RESOLUTION_OF_GROSS = 0.05

# For each case and metric there is one value per round.
Samples = dict[str, dict[str, list[float]]]


class Case(Protocol):
    """A computation of one implementation that can be timed."""

    def measure(self) -> dict[str, float]:
        """Runs once and returns each metric: seconds, or a rate if its name ends in "/s"."""

    def close(self) -> None:
        """Frees what the case holds."""


@dataclass(frozen=True)
class Budget:
    """The minimum and maximum number of rounds; no round begins after ``seconds``."""

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
    """Closes all cases and frees their memory, before the next ones are made."""
    for case in cases.values():
        case.close()
    gc.collect()


def times_better(metric: str, values: list[float], reference: list[float]) -> list[float]:
    """Returns for each round how many times better the value is than the reference."""
    pairs = zip(values, reference, strict=True)
    return [v / r if metric.endswith("/s") else r / v for v, r in pairs]


def seconds_for(action: Callable[[], object]) -> float:
    """Returns the duration of a call in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def net(gross: float, base: float) -> float:
    """Returns ``gross`` without ``base``, or the lowest duration that differs from zero."""
    return max(gross - base, RESOLUTION_SECONDS, RESOLUTION_OF_GROSS * gross)
