"""The table of results."""

from __future__ import annotations

from tf_condacc.examples.common import report
from tf_condacc.examples.digits.training import History, Settings


def table(history: History, settings: Settings, accumulator: str) -> str:
    """Returns the table of results as lines of text."""
    return report.table(
        [
            ("accumulator", accumulator),
            ("workers", f"{settings.num_workers}, the chief waits for {settings.num_required}"),
            ("steps", f"{len(history.losses):,}"),
            ("test accuracy", f"{history.accuracies[-1][1]:.4f}"),
            ("final loss", f"{history.losses[-1]:.4f}"),
            *report.gradients(history),
            ("seconds", f"{history.seconds:.1f}"),
        ]
    )
