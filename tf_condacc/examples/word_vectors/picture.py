"""The picture of a training, with its loss and the number of updated rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter

from tf_condacc.examples.common import pictures
from tf_condacc.examples.common.pictures import BLUE, GREEN, GREY, WINDOW, moving_mean
from tf_condacc.examples.word_vectors.training import History, Settings


def draw(
    history: History, settings: Settings, num_words: int, accumulator: str, path: Path
) -> None:
    """Writes the picture as a PNG file.

    Args:
        history: The record of the training.
        settings: The settings of the training.
        num_words: Size of the vocabulary.
        accumulator: Name of the accumulator class, for the title.
        path: Path of the file.
    """
    workers = pictures.workers(settings.num_workers)
    figure = pictures.new_figure(
        11, 4.4, f"Word vectors, learned by {workers} through {accumulator}"
    )
    left, right = figure.subplots(1, 2)
    _draw_loss(left, history)
    _draw_rows(right, history, num_words)
    for ax in (left, right):
        pictures.style(ax, len(history.losses))
        ax.set_xlabel("step", color=GREY)
    figure.savefig(path, format="png")


def _draw_loss(ax: Axes, history: History) -> None:
    steps = pictures.steps(history.losses)
    smooth = moving_mean(history.losses)
    ax.plot(steps, history.losses, color=BLUE, alpha=0.3, linewidth=0.8)
    ax.plot(steps, smooth, color=BLUE, linewidth=2.2)
    ax.annotate(
        f"{smooth[-1]:.2f} at the end",
        (steps[-1], smooth[-1]),
        xytext=(0, 14),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=BLUE,
        fontweight="bold",
    )
    pictures.title(ax, "Training loss", "of the gradients in each step, and its moving mean")


def _draw_rows(ax: Axes, history: History, num_words: int) -> None:
    steps = pictures.steps(history.losses)
    names = ("words", "neighbours")
    for name, color, rows in zip(names, (BLUE, GREEN), np.transpose(history.rows), strict=True):
        smooth = moving_mean(rows)
        ax.plot(steps, smooth, color=color, linewidth=2.2)
        ax.annotate(
            f"of {name}",
            (0.5 * steps[-1], smooth[len(smooth) // 2]),
            xytext=(0, -8),
            textcoords="offset points",
            ha="center",
            va="top",
            color=color,
            fontweight="bold",
        )
    ax.axhline(num_words, color=GREY, linewidth=1.4, linestyle=(0, (4, 3)))
    ax.set_ylim(0, 1.08 * num_words)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    subtitle = f"per step, of {num_words:,} in each embedding; moving mean of {WINDOW} steps"
    pictures.title(ax, "Rows updated", subtitle)
