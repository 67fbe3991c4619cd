"""The table that compares the two trainings."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tf_condacc.examples.async_digits import schedule
from tf_condacc.examples.async_digits.training import NAMES, History, Settings
from tf_condacc.examples.common import report

_AT_THE_END = 25  # Number of gradients.
_COLUMN = 30


def table(histories: Sequence[History], settings: Settings) -> str:
    """Returns the results of both trainings side by side, as lines of text.

    Args:
        histories: The records of the trainings. The first is the one that drops gradients.
        settings: The settings of that training.
    """

    def row(name: str, value: Callable[[History], str]) -> tuple[str, str]:
        return name, _columns(value(history) for history in histories)

    return report.table(
        [
            ("", _columns([f"staleness at most {settings.staleness}", "any staleness"])),
            row("test accuracy", lambda history: f"{history.accuracies[-1][1]:.4f}"),
            row("loss at the end", lambda history: f"{_loss_at_the_end(history):.4f}"),
            row("gradients", lambda history: _counts(_in_all(history))),
            *[
                row(f"  of {_name(worker)}", functools.partial(_counts_of, worker))
                for worker in range(settings.num_workers)
            ],
            row("highest staleness applied", lambda history: str(_highest_applied(history))),
            row("seconds", lambda history: f"{history.seconds:.1f}"),
        ]
    )


def save(histories: Sequence[History], settings: Settings, path: Path) -> None:
    """Writes the record of every gradient of both trainings as JSON."""
    trainings = {
        name: {**vars(history), "turns": [vars(turn) for turn in history.turns]}
        for name, history in zip(NAMES, histories, strict=True)
    }
    report.write({"settings": vars(settings), **trainings}, path)


def _columns(values: Iterable[str]) -> str:
    return "".join(f"{value:<{_COLUMN}}" for value in values).rstrip()


def _name(worker: int) -> str:
    times = schedule.times_as_long(worker)
    return "worker 1" if times == 1 else f"worker {worker + 1}, {times} times as slow"


def _counts(counts: tuple[int, int]) -> str:
    accepted, dropped = counts
    return f"{accepted:,} applied, {dropped:,} dropped"


def _counts_of(worker: int, history: History) -> str:
    return _counts(history.counts[worker])


def _in_all(history: History) -> tuple[int, int]:
    accepted, dropped = zip(*history.counts, strict=True)
    return sum(accepted), sum(dropped)


def _loss_at_the_end(history: History) -> float:
    return statistics.fmean(history.losses[-_AT_THE_END:])


def _highest_applied(history: History) -> int:
    return max(turn.staleness for turn in history.turns if turn.accepted)
