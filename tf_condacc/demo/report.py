"""What a training is summed up in: a line of progress, and a table at the end."""

from __future__ import annotations

import json
from pathlib import Path

from tqdm import tqdm

from tf_condacc.demo.training import History, Settings


class ProgressBar:
    """A bar on the terminal, with step, loss, accuracy and drops."""

    def __init__(self, steps: int):
        self._bar = tqdm(total=steps, unit="step", dynamic_ncols=True, disable=None)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def show(self, history: History) -> None:
        """Moves the bar to where the training is."""
        if not history.losses:
            return
        fields = {"loss": f"{history.losses[-1]:.4f}"}
        if history.accuracies:
            fields["accuracy"] = f"{history.accuracies[-1][1]:.3f}"
        fields["dropped"] = str(history.dropped[-1]) if history.dropped else "?"
        self._bar.set_postfix(fields, refresh=False)
        self._bar.update(len(history.losses) - self._bar.n)


def table(history: History, settings: Settings, accumulator: str) -> str:
    """The result as lines of text.

    A gradient counts as one, whatever the number of variables. What is applied, and where it can
    be known what is dropped, is counted by the accumulator that travels with the gradients.
    """
    applied = sum(history.accepted)
    if history.dropped_in_all is None:
        late = history.pushed - applied - history.pending
        dropped = f"{late:,} (pushed less applied; TensorFlow's class does not count them)"
    else:
        dropped = f"{history.dropped_in_all:,}"
    rows = [
        ("accumulator", accumulator),
        ("workers", f"{settings.num_workers}, the chief waits for {settings.num_required}"),
        ("steps", f"{len(history.losses):,}"),
        ("test accuracy", f"{history.accuracies[-1][1]:.4f}"),
        ("final loss", f"{history.losses[-1]:.4f}"),
        ("gradients applied", f"{applied:,}"),
        ("gradients dropped", dropped),
        ("seconds", f"{history.seconds:.1f}"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def save(history: History, settings: Settings, accumulator: str, path: Path) -> None:
    """Writes the losses and all else that is known of the training as JSON.

    The losses are written so that reading them back gives the same numbers to the last bit.
    """
    record = {"accumulator": accumulator, "settings": vars(settings), **vars(history)}
    path.write_text(json.dumps(record, indent=1) + "\n")
