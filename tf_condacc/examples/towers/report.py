"""The tables of results."""

from __future__ import annotations

from collections.abc import Sequence

from tf_condacc.examples.common import report
from tf_condacc.examples.towers.comparison import TOLERANCE, Difference
from tf_condacc.examples.towers.runs import Run, Settings


def trainings(every: Sequence[Run], settings: Settings) -> str:
    """Returns the results of the trainings with batch normalization, as lines of text."""
    head = f"Trained for {settings.steps:,} steps of {settings.batch_size} digits each:"
    rows = [
        (
            run.title,
            f"loss {run.losses[-1]:.4f}, test accuracy {run.accuracy:.4f} "
            f"(predicted classes: {run.predicted:.4f}), {1e3 * run.step_seconds:.1f} ms a step",
        )
        for run in every
    ]
    return f"{head}\n{report.table(rows)}"


def differences(every: Sequence[Difference], moved: float, settings: Settings) -> str:
    """Returns the differences from one tower on the whole batch, as lines of text.

    Args:
        every: The differences.
        moved: The largest change of a weight in the training.
        settings: The settings of the trainings.
    """
    head = (
        f"Without batch normalization, {settings.compared_steps} steps from the same weights on "
        "the same batches.\nLargest difference of a weight from one tower on the whole batch, "
        f"which moves them by up to {moved:.2f}:"
    )
    rows = [
        (
            each.title,
            f"{each.largest[-1]:.1e} after the last step, {max(each.largest):.1e} at most: "
            + ("the same" if each.is_tolerable else f"more than the {TOLERANCE:.0e} of rounding"),
        )
        for each in every
    ]
    return f"{head}\n{report.table(rows)}"
