"""What the programs' pictures have in common."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#e07b28", "#2c8a57", "#5b6470"
WINDOW = 25  # steps that the smooth curves average


def new_figure(width: float, height: float, title: str) -> Figure:
    """An empty picture with a title."""
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.05, hspace=0.06)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    return figure


def moving_mean(values: list[float] | np.ndarray) -> np.ndarray:
    """Mean of the `WINDOW` values around each place, of fewer near the ends."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    centers = np.arange(len(values))
    starts = np.maximum(centers - WINDOW // 2, 0)
    ends = np.minimum(centers + WINDOW // 2 + 1, len(values))
    return (sums[ends] - sums[starts]) / (ends - starts)


def steps(values: list[float] | list[int]) -> np.ndarray:
    """Numbers of the steps that a list has an entry for each of."""
    return np.arange(1, len(values) + 1)


def title(ax: Axes, text: str, subtitle: str) -> None:
    """A bold title over a grey line that explains it."""
    ax.set_title(text, loc="left", fontweight="bold", fontsize=12, pad=22)
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=GREY, fontsize=9.5, va="bottom")


def style(ax: Axes, last_step: int) -> None:
    """Axes of steps, with little around the data."""
    ax.set_xlim(0, last_step)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, length=0, labelbottom=True)


def workers(count: int) -> str:
    """A number of workers in words."""
    return "1 worker" if count == 1 else f"{count} workers"
