"""The goals: figures relative to TensorFlow's own accumulators that this project wants to reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

KI, MI = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Goal:
    """The ratio to reach, and a higher ratio to aim for if there is one."""

    at_least: float
    aim: float | None = None

    def verdict(self, ratio: float) -> str:
        """Returns ``aim``, ``reached`` or ``missed``."""
        if self.aim is not None and ratio >= self.aim:
            return "aim"
        return "reached" if ratio >= self.at_least else "missed"

    def __str__(self) -> str:
        return f"{self.at_least:g}x" + (f" / {self.aim:g}x" if self.aim is not None else "")


@dataclass(frozen=True)
class Limit:
    """An upper bound of our own figure, and a lower one to aim for."""

    at_most: float
    aim: float

    def verdict(self, value: float) -> str:
        """Returns ``aim``, ``reached`` or ``missed``."""
        if value <= self.aim:
            return "aim"
        return "reached" if value <= self.at_most else "missed"

    def __str__(self) -> str:
        if self.at_most < 1e-3:
            return f"<={self.at_most * 1e6:.1f} / {self.aim * 1e6:.1f} us"
        return f"<={self.at_most:.3g} / {self.aim:.3g}"


def goal_of(
    scenario: str, case: str, metric: str, against: str, reference: float
) -> Goal | Limit | None:
    """Returns the goal of a line of the results, or None. Arguments are those of `Result`."""
    metric = metric if against == "TensorFlow" else f"{metric} against {against}"
    for of_scenario, of_case, of_metric, goal in _GOALS:
        if (
            of_scenario == scenario
            and re.fullmatch(of_case, case)
            and re.fullmatch(of_metric, metric)
        ):
            return goal(reference) if callable(goal) else goal
    return None


# For each scenario, the cases and metrics as patterns, and the goal. A function makes a limit from
# the figure of the other side.
_GOALS: list[tuple[str, str, str, Goal | Limit | Callable[[float], Limit]]] = [
    ("D1", "(1M|16M|64M) staged N=1", "cycle", Goal(20, 50)),
    ("D1", "(64K|1M) staged N=(4|8|32)", "cycle", Goal(1.5, 2.5)),
    ("D1", "(16M|64M) staged N=4", "cycle", Goal(2.0, 2.3)),
    ("D1", "(16M|64M) staged N=8", "cycle", Goal(1.9, 2.2)),
    ("D1", "(16M|64M) staged N=32", "cycle", Goal(1.7, 2.0)),
    ("D1", "(64K|1M|16M|64M) shared N=1", "cycle", Goal(1.4)),
    ("D1", "(64K|1M|16M|64M) shared N=(4|8|32)", "cycle", Goal(1.0)),
    # The time includes the computation of the gradients, as in scenario D3.
    ("D1", "16M mul N=(4|8|32)", "cycle", Goal(1.3, 1.45)),
    # One native pass over the gradients that are added. The operations alone take so long that the
    # goal for few elements is without their time.
    ("D1", "(16M|64M) staged N=(4|8|32)", "cycle against limit", Goal(0.8)),
    ("D1", "64K staged N=(4|8|32), net", "cycle against limit", Goal(0.8)),
    ("D2", r"\d+ of 4K .*", "apply|take", Goal(0.95, 1.2)),
    ("D3", r"\d+ threads 1M shared", "applies/s", Goal(1.5, 1.8)),
    ("D3", r"\d+ threads 16M mul", "applies/s", Goal(1.3, 1.45)),
    ("D3", r"\d+ threads 1M .*", "last apply to take", Goal(1.4, 1.8)),
    ("D3", r"\d+ threads 16M .*", "last apply to take", Goal(1.4, 1.6)),
    ("D4", "(float16|float64) 16M staged N=8", "cycle", Goal(1.8, 2.2)),
    ("D4", "bfloat16 16M staged N=8", "cycle against our float16", Goal(1.0)),
    ("S1", "(1K|10K|100K)x64 N=1", "cycle", Goal(3, 10)),
    ("S1", "(1K|10K)x64 N=8", "cycle", Goal(4, 8)),
    ("S1", "(1K|10K)x64 N=32", "cycle", Goal(7, 12)),
    ("S1", "(1K|10K)x64 N=128", "cycle", Goal(20, 40)),
    ("S1", "100Kx64 N=8", "cycle", Goal(2.5, 4)),
    ("S1", "100Kx64 N=32", "cycle", Goal(4, 6)),
    ("S1", "100Kx64 N=128", "cycle", Goal(7, 10)),
    # The limit reads every gradient once, and writes the result once.
    ("S1", "1Kx64 N=128", "cycle against limit", Goal(1 / 2.3)),
    ("S1", "(10K|100K)x64 N=8", "cycle against limit", Goal(1 / 1.6)),
    ("S1", "10Kx64 N=32", "cycle against limit", Goal(1 / 1.8)),
    ("S1", "100Kx64 N=32", "cycle against limit", Goal(1 / 3.0)),
    ("S1", "(10K|100K)x64 N=128", "cycle against limit", Goal(1 / 3.5)),
    ("S1", "10Kx256 N=8", "cycle against limit", Goal(1 / 1.6)),
    ("S1", "10Kx256 N=32", "cycle against limit", Goal(1 / 1.4)),
    ("S1", "10Kx256 N=128", "cycle against limit", Goal(1 / 2.8)),
    ("S1", "100Kx256 N=8", "cycle against limit", Goal(1 / 1.4)),
    ("S1", "100Kx256 N=32", "cycle against limit", Goal(1 / 2.8)),
    # TensorFlow's own accumulator needs raw rows sorted and made unique, which its time includes.
    ("SZ", r"\d+Kx64 raw N=(8|32)", "cycle", Goal(5, 8)),
    ("SZ", r"\d+Kx64 deduped N=8", "cycle", Goal(3, 5)),
    # The last of many applies relative to the second one, and the seconds of the slowest.
    ("S2", ".*", "growth", Limit(2, aim=1.3)),
    ("S2", ".*", "slowest apply", Limit(10e-3, aim=2e-3)),
    # In gradients: as many as TensorFlow's own holds. Two more leave room for other memory.
    ("M", "dense (16M|64M) .*", ".*", lambda theirs: Limit(theirs + 2, aim=theirs)),
    # In unions of all rows: 2.5, and a gradient, whose size relative to the union depends on N.
    ("M", "100Kx64 N=1", ".*", Limit(3.5, aim=2)),
    ("M", "100Kx64 N=8", ".*", Limit(2.67, aim=2)),
    ("M", "100Kx64 N=32", ".*", Limit(2.6, aim=2)),
    ("T", ".*", "sum", Goal(1.0)),
    # There is none for takes, which read the number of accumulated gradients first.
    (
        "P",
        "apply_grad|apply_indexed_slices_grad",
        "call against raw op",
        lambda operation: Limit(operation + 10e-6, aim=operation + 5e-6),
    ),
    ("C", ".*", "apply against 10 contributors", Goal(0.8)),
    ("F", ".* in order", "cycle against arrival", Goal(0.95)),
    ("F", ".* at random", "cycle against arrival", Goal(0.8)),
    # A call that only needs the lock hardly takes longer while another thread saves one time after
    # another. An apply shares the memory's bandwidth with the saves, and sometimes waits for one.
    ("V", ".*", "count against no saves", Goal(0.5)),
    ("V", ".*", "apply against no saves", Goal(0.15)),
    ("E", ".* x 2048", "step", Goal(1.08, 1.15)),
    ("E", ".* x (64|1024)( .*)?", "step", Goal(0.95)),
    ("R", "1 ps .*", "steps/s", Goal(1.0)),
    ("R", "2 ps .*", "steps/s", Goal(0.97)),
    # No fewer micro-batches per second than with any other way to accumulate them, and hardly more
    # memory, in MiB.
    ("G", ".*", r"steps/s against (Keras|tf\.Variable|scatter_add)", Goal(1.0)),
    (
        "G",
        ".*",
        r"peak, MiB against (Keras|tf\.Variable|scatter_add)",
        lambda theirs: Limit(1.05 * theirs, aim=theirs),
    ),
    # A cycle may take 35 % longer if its gradients are checked to be finite.
    ("G", ".*", "cycle against no check", Goal(1 / 1.35)),
    ("G", ".* with weights", "call against unweighted", Goal(1 / 1.2)),
    ("G", "eager, .* with weights", "call against assign_add", Goal(0.8)),
    ("G", "graph, .* with weights", "call against assign_add", Goal(1.0)),
]
