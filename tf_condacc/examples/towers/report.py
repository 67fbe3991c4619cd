"""The tables that sum up the runs."""

from __future__ import annotations

from collections.abc import Sequence

from tf_condacc.examples.common import report
from tf_condacc.examples.towers.comparison import TOLERANCE, Difference
from tf_condacc.examples.towers.runs import Run, Settings


def trainings(every: Sequence[Run], settings: Settings) -> str:
    """The trainings with batch normalization."""
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
    """What differs from one tower on the whole batch."""
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
