"""The picture of losses, differences of weights, and step times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tf_condacc.examples.common import pictures
from tf_condacc.examples.common.pictures import BLUE, GREEN, GREY, ORANGE, moving_mean
from tf_condacc.examples.towers.comparison import TOLERANCE, Difference
from tf_condacc.examples.towers.runs import Run

_COLORS = (BLUE, ORANGE, GREEN, GREY)
_NO_DIFFERENCE = 1e-9  # The value at which a difference of zero is drawn.


def draw(every: Sequence[Run], differences: Sequence[Difference], path: Path) -> None:
    """Writes the picture as a PNG file.

    Args:
        every: The runs with batch normalization.
        differences: The differences of the runs without it.
        path: Path of the file.
    """
    figure = pictures.new_figure(13, 4.6, "Handwritten digits, learned with towers")
    losses, weights, times = figure.subplots(1, 3, width_ratios=[4, 4, 2.6])
    _draw_losses(losses, every)
    _draw_differences(weights, differences)
    _draw_times(times, every)
    figure.savefig(path, format="png")


def _draw_losses(ax: Axes, every: Sequence[Run]) -> None:
    for run, color in zip(every, _COLORS, strict=False):
        smooth = np.exp(moving_mean(np.log(np.maximum(run.losses, 1e-6))))
        label = f"{run.title}, {run.accuracy:.1%} right"
        ax.plot(pictures.steps(run.losses), smooth, color=color, linewidth=2, label=label)
    ax.set_yscale("log")
    ax.minorticks_off()
    _legend(ax)
    pictures.style(ax, len(every[0].losses))
    ax.set_xlabel("step", color=GREY)
    pictures.title(ax, "Training loss", "with batch normalization, whose statistics are per tower")


def _draw_differences(ax: Axes, differences: Sequence[Difference]) -> None:
    ax.axhline(TOLERANCE, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.text(0.5, TOLERANCE * 1.3, "tolerance", color=GREY, fontsize=9)
    for number, difference in enumerate(differences):
        values = np.maximum(difference.largest, _NO_DIFFERENCE)
        color = _COLORS[1 + number // 2 % (len(_COLORS) - 1)]
        # The lines of a mirrored run and its towers coincide if they do not differ. The dots of the
        # mirrored run leave the other line visible.
        style: dict[str, Any] = {"color": color, "linewidth": 2.6}
        if number % 2 == 1:
            style = {"color": "black", "linewidth": 1.3, "linestyle": (0, (1, 1 + number))}
        ax.plot(np.arange(len(values)), values, label=difference.title, **style)
    ax.set_yscale("log")
    ax.set_ylim(_NO_DIFFERENCE, 1e-3)
    ax.minorticks_off()
    if differences:
        _legend(ax, top=0.81)  # Below the line of the tolerance.
        pictures.style(ax, len(differences[0].largest) - 1)
    ax.set_xlabel("step", color=GREY)
    pictures.title(
        ax, "Difference of weights", "largest, from one tower on the whole batch; no batch norm"
    )


def _legend(ax: Axes, top: float = 1.0) -> None:
    look = {"labelcolor": GREY, "facecolor": "white", "edgecolor": "none", "framealpha": 1}
    ax.legend(loc="upper right", bbox_to_anchor=(1, top), **look)


def _draw_times(ax: Axes, every: Sequence[Run]) -> None:
    names, times = [run.title for run in every], [1e3 * run.step_seconds for run in every]
    ax.bar(names, times, color=_COLORS[: len(every)], width=0.6)
    for place, value in enumerate(times):
        ax.text(place, value, f"{value:.1f}", ha="center", va="bottom", color=GREY)
    pictures.style(ax, len(every))
    ax.set_xlim(-0.6, len(every) - 0.4)
    ax.grid(visible=False)
    ax.set_yticks([])
    pictures.title(ax, "Step time", "ms, on this machine's CPU")
