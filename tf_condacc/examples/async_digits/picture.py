"""The picture: how stale the gradients of both trainings were, and what they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tf_condacc.examples.async_digits.training import NAMES, History, Settings
from tf_condacc.examples.common import pictures
from tf_condacc.examples.common.pictures import BLUE, GREEN, GREY, ORANGE, WINDOW, moving_mean

_COLORS = (BLUE, GREEN)  # The training that drops gradients is blue, the other is green.


def draw(histories: Sequence[History], settings: Settings, path: Path) -> None:
    """Writes the picture as a PNG file.

    Args:
        histories: The records of the trainings. The first is the one that drops gradients.
        settings: The settings of that training.
        path: Path of the file.
    """
    workers = pictures.workers(settings.num_workers)
    figure = pictures.new_figure(
        11, 7.2, f"Handwritten digits, learned by {workers} that do not wait for each other"
    )
    axes = figure.subplots(2, 2)
    for ax, history, color in zip(axes[0], histories, _COLORS, strict=True):
        _draw_staleness(ax, history, color)
    highest = max(turn.staleness for history in histories for turn in history.turns)
    last_step = max(turn.step for history in histories for turn in history.turns) + 1
    for ax in axes[0]:
        ax.set_ylim(-0.5, 1.12 * highest + 1)
        _finish(ax, last_step, "global step")
    _draw_limit(axes[0, 0], settings.staleness, last_step)
    _draw_accuracies(axes[1, 0], histories)
    _draw_losses(axes[1, 1], histories)
    for ax in axes[1]:
        _finish(ax, settings.steps, "gradients computed, applied or not")
    figure.savefig(path, format="png")


def _draw_staleness(ax: Axes, history: History, color: str) -> None:
    applied = [turn for turn in history.turns if turn.accepted]
    dropped = [turn for turn in history.turns if not turn.accepted]
    for turns, dots in ((applied, color), (dropped, ORANGE)):
        at, staleness = [turn.step for turn in turns], [turn.staleness for turn in turns]
        ax.scatter(at, staleness, s=15, color=dots, alpha=0.7, linewidth=0, clip_on=False)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    counts = [(f"{len(applied):,} applied", color)]
    counts += [(f"{len(dropped):,} dropped", ORANGE)] if dropped else []
    for line, (text, text_color) in enumerate(counts):
        _write(ax, 0.985, 0.97 - 0.1 * line, text, text_color, ha="right", va="top")
    name = NAMES[_COLORS.index(color)]
    pictures.title(ax, f"Staleness, {name}", "of each gradient when it was ready to be applied")


def _draw_limit(ax: Axes, limit: int, last_step: int) -> None:
    """Draws a line between the highest accepted and the lowest dropped staleness."""
    ax.axhline(limit + 0.5, color=GREY, linewidth=1.4, linestyle=(0, (4, 3)))
    ax.annotate(
        f"at most {limit}",
        (last_step, limit + 0.5),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=GREY,
        fontweight="bold",
    )


def _draw_accuracies(ax: Axes, histories: Sequence[History]) -> None:
    for line, (history, color, name) in enumerate(zip(histories, _COLORS, NAMES, strict=True)):
        turns, values = zip(*history.accuracies, strict=True)
        ax.plot(turns, values, color=color, linewidth=2.2)
        ax.plot(turns[-1], values[-1], "o", color=color, markersize=7, clip_on=False)
        text = f"{name}: {values[-1]:.1%} at the end"
        _write(ax, 0.985, 0.25 - 0.1 * line, text, color, ha="right", va="top")
    ax.set_ylim(0.0, 1.0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    pictures.title(ax, "Accuracy", "on test images that no worker has seen")


def _draw_losses(ax: Axes, histories: Sequence[History]) -> None:
    for history, color in zip(histories, _COLORS, strict=True):
        smooth = np.exp(moving_mean(np.log(np.maximum(history.losses, 1e-6))))
        ax.plot(pictures.steps(history.losses), smooth, color=color, linewidth=2.2)
    ax.set_yscale("log")
    ax.minorticks_off()
    subtitle = f"of every batch, also of dropped gradients; moving mean of {WINDOW}"
    pictures.title(ax, "Training loss", subtitle)


def _write(ax: Axes, x: float, y: float, text: str, color: str, **alignment: Any) -> None:
    """Writes text on a white background, at a position in axes coordinates."""
    frame = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 2}
    ax.text(
        x, y, text, transform=ax.transAxes, color=color, fontweight="bold", bbox=frame, **alignment
    )


def _finish(ax: Axes, last: int, label: str) -> None:
    pictures.style(ax, last)
    ax.set_xlabel(label, color=GREY)
