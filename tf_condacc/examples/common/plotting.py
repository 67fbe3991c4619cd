"""The style of the pictures: figures, axes, curves and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#e07b28", "#2c8a57", "#5b6470"
WINDOW = 25  # Number of steps over which the smooth curves average.
DASHES = (0, (4, 3))


def new_figure(width: float, height: float, title: str) -> Figure:
    """Returns an empty figure with a title. Width and height are in inches."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.05, hspace=0.06)
    figure = Figure(figsize=(width, height), dpi=150, layout=layout)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    return figure


def title(ax: Axes, text: str, subtitle: str) -> None:
    """Writes a bold title above a grey subtitle."""
    ax.set_title(text, loc="left", fontweight="bold", fontsize=12, pad=22)
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=GREY, fontsize=9.5, va="bottom")


def style(ax: Axes, last_step: float, label: str = "") -> None:
    """Sets the style of axes whose horizontal axis is the step."""
    ax.set_xlim(0, last_step)
    ax.set_xlabel(label, color=GREY)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, length=0, labelbottom=True)


def steps(values: Sequence[float]) -> np.ndarray:
    """Returns the step numbers of a list with one entry per step: 1, 2, …, n."""
    return np.arange(1, len(values) + 1)


def moving_mean(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the means of the `WINDOW` values around each value, of fewer at both ends: `[n]`."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    centers = np.arange(len(values))
    starts = np.maximum(centers - WINDOW // 2, 0)
    ends = np.minimum(centers + WINDOW // 2 + 1, len(values))
    return (sums[ends] - sums[starts]) / (ends - starts)


def curve(
    ax: Axes, values: Sequence[float], color: str, log: bool = False, faint: bool = False
) -> np.ndarray:
    """Draws the moving mean of values with one entry per step, and returns it: `[n]`.

    Args:
        ax: The axes.
        values: The values.
        color: Color of the curve.
        log: Whether the vertical axis and the mean are logarithmic.
        faint: Whether to draw the values too, as a faint line.
    """
    drawn = np.maximum(values, 1e-6) if log else np.asarray(values, float)
    smooth = np.exp(moving_mean(np.log(drawn))) if log else moving_mean(drawn)
    if faint:
        ax.plot(steps(values), drawn, color=color, alpha=0.3, linewidth=0.8)
    ax.plot(steps(values), smooth, color=color, linewidth=2.2)
    if log:
        ax.set_yscale("log")
        ax.minorticks_off()
    return smooth


def note(
    ax: Axes,
    point: tuple[float, float],
    text: str,
    color: str,
    offset: tuple[float, float],
    **alignment: str,
) -> None:
    """Writes text beside a point. The offset is in points of 1/72 inch."""
    look: dict[str, Any] = {"color": color, "fontweight": "bold", **alignment}
    ax.annotate(text, point, xytext=offset, textcoords="offset points", **look)


def write(ax: Axes, height: float, text: str, color: str) -> None:
    """Writes text on a white background at the right, at a height between 0 and 1."""
    frame = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 2}
    look: dict[str, Any] = {"color": color, "fontweight": "bold", "bbox": frame}
    ax.text(0.985, height, text, transform=ax.transAxes, ha="right", va="top", **look)


def label(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    """Writes text around a point: white on blue, or another color on white."""
    frame = {"facecolor": BLUE if color == "white" else "white", "linewidth": 0, "pad": 3}
    look: dict[str, Any] = {"color": color, "fontweight": "bold", "bbox": frame}
    ax.text(x, y, text, ha="center", va="center", **look)


def legend(ax: Axes, top: float = 1.0) -> None:
    """Writes the names of the curves at the right, below a height between 0 and 1."""
    look = {"labelcolor": GREY, "facecolor": "white", "edgecolor": "none", "framealpha": 1}
    ax.legend(loc="upper right", bbox_to_anchor=(1, top), **look)
