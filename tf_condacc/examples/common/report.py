"""The progress bar of a training, and the table and the JSON file at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from tf_condacc.examples.common.training import History


class Progress(Protocol):
    """The values that a progress bar shows, with one entry per step."""

    @property
    def losses(self) -> Sequence[float]:
        """The loss of each step."""

    @property
    def dropped(self) -> Sequence[int]:
        """The number of gradients dropped up to each step; empty if they are not counted."""


class ProgressBar:
    """A progress bar on the terminal, with the step, the loss and the number of dropped gradients.

    Args:
        steps: Total number of steps.
        title: Text in front of the bar.
    """

    def __init__(self, steps: int, title: str | None = None):
        self._bar = tqdm(total=steps, desc=title, unit="step", dynamic_ncols=True, disable=None)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def show(self, history: Progress, more: Mapping[str, str]) -> None:
        """Updates the bar.

        Args:
            history: The record of the training so far.
            more: Further values to show, by their names.
        """
        if not history.losses:
            return
        fields = {"loss": f"{history.losses[-1]:.4f}", **more}
        fields["dropped"] = str(history.dropped[-1]) if history.dropped else "?"
        self._bar.set_postfix(fields, refresh=False)
        self._bar.update(len(history.losses) - self._bar.n)


def accuracy(accuracies: Sequence[tuple[int, float]]) -> dict[str, str]:
    """Returns the latest accuracy in the form that `ProgressBar.show` takes."""
    return {"accuracy": f"{accuracies[-1][1]:.3f}"} if accuracies else {}


def gradients(history: History) -> list[tuple[str, str]]:
    """Returns the rows of a table with the numbers of applied and dropped gradients.

    The gradients of all variables that a worker pushes together count as one. The accumulator of
    the statistics counts them.
    """
    applied = sum(history.accepted)
    if history.dropped_in_all is None:
        late = history.pushed - applied - history.pending
        dropped = f"{late:,} (pushed less applied; TensorFlow's class does not count them)"
    else:
        dropped = f"{history.dropped_in_all:,}"
    return [("gradients applied", f"{applied:,}"), ("gradients dropped", dropped)]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Returns rows of names and values as lines of text."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def save(history: History, settings: object, accumulator: str, path: Path) -> None:
    """Writes the settings and the record of a training as JSON.

    Reading the losses back gives exactly the same numbers.
    """
    write({"accumulator": accumulator, "settings": vars(settings), **vars(history)}, path)


def write(record: Mapping[str, object], path: Path) -> None:
    """Writes a record as JSON."""
    path.write_text(json.dumps(record, indent=1) + "\n")
