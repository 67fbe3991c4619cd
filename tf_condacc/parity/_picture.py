"""The picture of a report: the differences of the weights over the steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tf_condacc.parity._report import Report

_SPAN = 1e-4  # Smaller differences, in units of the smallest tolerance, are drawn at this height.
_COLORS = ("#e07b28", "#2f6db3", "#2c8a57", "#8a5aa8", "#222222", "#b5446e")


def save(report: Report, path: Path) -> Path:
    """Draws the largest difference of each way from the yardstick, and returns the path."""
    try:
        from tf_condacc.examples.common import plotting
    except ImportError as error:
        raise ImportError(
            "the picture of a report needs matplotlib: pip install matplotlib"
        ) from error
    figure = plotting.new_figure(9, 4.8, "Parity of trainings")
    ax = figure.subplots()
    steps = np.arange(1, report.num_steps + 1)
    smallest, limits = report.limits[1:].min(axis=1), report.limits[1:].max(axis=1)
    floor = max(_SPAN * float(smallest[0]), 1e-12)
    ax.fill_between(
        steps, floor, smallest, color="#e3e8ed", linewidth=0, label="within all tolerances"
    )
    ax.fill_between(steps, smallest, limits, color="#f1f4f6", linewidth=0)
    ax.plot(steps, limits, color=plotting.GREY, linewidth=1, linestyle=plotting.DASHES,
            label="highest tolerance")  # fmt: skip
    for number, way in enumerate(report.ways[1:]):
        worst = report.distances(way)[1:].max(axis=1)
        color = _COLORS[number % len(_COLORS)]
        # Lines that coincide remain visible, because the later ones are dotted.
        line = "-" if number == 0 else (0, (1.5, 0.8 + 0.7 * number))
        ax.plot(steps, np.maximum(worst, floor), color=color, linewidth=2.4, linestyle=line,
                marker="o", markersize=3.5, label=way)  # fmt: skip
    ax.set_yscale("log")
    ax.minorticks_off()
    plotting.style(ax, report.num_steps, "step")
    ax.set_xlim(0.9, report.num_steps + 0.1)
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor=plotting.GREY)
    subtitle = f"largest of all variables, from {report.ways[0]}; 0 is drawn at the bottom"
    plotting.title(ax, "Difference of weights", subtitle)
    figure.savefig(path)
    return path
