"""What a training is summed up in: a line of progress, and a table at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from tf_condacc.examples.common.training import History


class Progress(Protocol):
    """What a progress bar shows: an entry for each step made."""

    @property
    def losses(self) -> Sequence[float]: ...

    @property
    def dropped(self) -> Sequence[int]:
        """Gradients dropped up to the step; empty where they are not counted."""


class ProgressBar:
    """A bar on the terminal, with step, loss and drops, and what else there is to tell."""

    def __init__(self, steps: int, title: str | None = None):
        self._bar = tqdm(total=steps, desc=title, unit="step", dynamic_ncols=True, disable=None)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def show(self, history: Progress, more: Mapping[str, str]) -> None:
        """Moves the bar to where the training is."""
        if not history.losses:
            return
        fields = {"loss": f"{history.losses[-1]:.4f}", **more}
        fields["dropped"] = str(history.dropped[-1]) if history.dropped else "?"
        self._bar.set_postfix(fields, refresh=False)
        self._bar.update(len(history.losses) - self._bar.n)


def accuracy(accuracies: Sequence[tuple[int, float]]) -> dict[str, str]:
    """The last of the accuracies so far, for a progress bar to show."""
    return {"accuracy": f"{accuracies[-1][1]:.3f}"} if accuracies else {}


def gradients(history: History) -> list[tuple[str, str]]:
    """Lines of a table on what became of the gradients.

    A gradient counts as one, whatever the number of variables. What is applied, and where it can
    be known what is dropped, is counted by the accumulator that travels with the gradients.
    """
    applied = sum(history.accepted)
    if history.dropped_in_all is None:
        late = history.pushed - applied - history.pending
        dropped = f"{late:,} (pushed less applied; TensorFlow's class does not count them)"
    else:
        dropped = f"{history.dropped_in_all:,}"
    return [("gradients applied", f"{applied:,}"), ("gradients dropped", dropped)]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values as lines of text."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def save(history: History, settings: object, accumulator: str, path: Path) -> None:
    """Writes the losses and all else that is known of the training as JSON.

    The losses are written so that reading them back gives the same numbers to the last bit.
    """
    write({"accumulator": accumulator, "settings": vars(settings), **vars(history)}, path)


def write(record: Mapping[str, object], path: Path) -> None:
    """Writes JSON."""
    path.write_text(json.dumps(record, indent=1) + "\n")
