"""The style of the programs' pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#e07b28", "#2c8a57", "#5b6470"
WINDOW = 25  # Number of steps over which the smooth curves average.


def new_figure(width: float, height: float, title: str) -> Figure:
    """Returns an empty figure with a title. Width and height are in inches."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.05, hspace=0.06)
    figure = Figure(figsize=(width, height), dpi=150, layout=layout)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    return figure


def moving_mean(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the means of the `WINDOW` values around each value, of fewer at both ends: `[n]`."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    centers = np.arange(len(values))
    starts = np.maximum(centers - WINDOW // 2, 0)
    ends = np.minimum(centers + WINDOW // 2 + 1, len(values))
    return (sums[ends] - sums[starts]) / (ends - starts)


def steps(values: Sequence[float]) -> np.ndarray:
    """Returns the step numbers of a list with one entry per step: 1, 2, …, n."""
    return np.arange(1, len(values) + 1)


def title(ax: Axes, text: str, subtitle: str) -> None:
    """Writes a bold title above a grey subtitle."""
    ax.set_title(text, loc="left", fontweight="bold", fontsize=12, pad=22)
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=GREY, fontsize=9.5, va="bottom")


def style(ax: Axes, last_step: int) -> None:
    """Sets the style of axes whose horizontal axis is the step."""
    ax.set_xlim(0, last_step)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, length=0, labelbottom=True)


def workers(count: int) -> str:
    """Returns a number of workers as text."""
    return "1 worker" if count == 1 else f"{count} workers"
