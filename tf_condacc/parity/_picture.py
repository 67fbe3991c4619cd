"""The picture of a report: the differences of the weights over the steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tf_condacc.parity._report import Report

_SPAN = 1e-4  # Smaller differences, in units of the smallest tolerance, are drawn at this height.
_COLORS = ("#e07b28", "#2f6db3", "#2c8a57", "#8a5aa8", "#222222", "#b5446e")
_GREY = "#5b6470"


def save(report: Report, path: Path) -> Path:
    """Draws the largest difference of each setup from the baseline, and returns the path."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "the picture of a report needs matplotlib: pip install matplotlib"
        ) from error
    figure = Figure(figsize=(9, 4.8), dpi=150, layout="constrained")
    figure.suptitle("Parity of trainings", fontsize=14, fontweight="bold")
    ax = figure.subplots()
    steps = np.arange(1, report.num_steps + 1)
    smallest, limits = report.limits[1:].min(axis=1), report.limits[1:].max(axis=1)
    floor = max(_SPAN * float(smallest[0]), 1e-12)
    ax.fill_between(
        steps, floor, smallest, color="#e3e8ed", linewidth=0, label="within all tolerances"
    )
    ax.fill_between(steps, smallest, limits, color="#f1f4f6", linewidth=0)
    ax.plot(steps, limits, color=_GREY, linewidth=1, linestyle=(0, (4, 3)),
            label="highest tolerance")  # fmt: skip
    for number, setup in enumerate(report.setups[1:]):
        worst = report.distances(setup)[1:].max(axis=1)
        color = _COLORS[number % len(_COLORS)]
        # Lines that coincide remain visible, because the later ones are dotted.
        line = "-" if number == 0 else (0, (1.5, 0.8 + 0.7 * number))
        ax.plot(steps, np.maximum(worst, floor), color=color, linewidth=2.4, linestyle=line,
                marker="o", markersize=3.5, label=setup)  # fmt: skip
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.set_xlim(0.9, report.num_steps + 0.1)
    ax.set_xlabel("step", color=_GREY)
    ax.locator_params(axis="x", integer=True)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(colors=_GREY, length=0)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor=_GREY)
    ax.set_title("Difference of weights", loc="left", fontweight="bold", fontsize=12, pad=22)
    subtitle = f"largest of all variables, from {report.setups[0]}; 0 is drawn at the bottom"
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=_GREY, fontsize=9.5)
    figure.savefig(path, format="png")
    return path
