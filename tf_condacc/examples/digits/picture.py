"""The picture of a training, with loss, accuracy, and applied and dropped gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter, StrMethodFormatter

from tf_condacc.examples.common import pictures
from tf_condacc.examples.common.pictures import BLUE, GREEN, GREY, ORANGE, WINDOW, moving_mean
from tf_condacc.examples.digits.training import History, Settings


def draw(history: History, settings: Settings, accumulator: str, path: Path) -> None:
    """Writes the picture as a PNG file.

    Args:
        history: The record of the training.
        settings: The settings of the training.
        accumulator: Name of the accumulator class, for the title.
        path: Path of the file.
    """
    workers = pictures.workers(settings.num_workers)
    figure = pictures.new_figure(
        11, 6.8, f"Handwritten digits, learned by {workers} through {accumulator}"
    )
    axes = figure.subplots(2, 2, sharex=True)
    _draw_loss(axes[0, 0], history)
    _draw_accuracy(axes[1, 0], history)
    _draw_totals(axes[0, 1], history)
    _draw_per_step(axes[1, 1], history, settings)
    for ax in axes.flat:
        pictures.style(ax, len(history.losses))
    for ax in axes[1]:
        ax.set_xlabel("step", color=GREY)
    figure.savefig(path, format="png")


def _draw_loss(ax: Axes, history: History) -> None:
    losses = np.maximum(history.losses, 1e-6)
    ax.plot(pictures.steps(history.losses), losses, color=BLUE, alpha=0.3, linewidth=0.8)
    smooth = np.exp(moving_mean(np.log(losses)))
    ax.plot(pictures.steps(history.losses), smooth, color=BLUE, linewidth=2.2)
    ax.set_yscale("log")
    ax.minorticks_off()
    pictures.title(ax, "Training loss", "of the gradients in each step, and its moving mean")


def _draw_accuracy(ax: Axes, history: History) -> None:
    steps, values = zip(*history.accuracies, strict=True)
    ax.plot(steps, values, color=GREEN, linewidth=2.2)
    ax.plot(steps[-1], values[-1], "o", color=GREEN, markersize=7, clip_on=False)
    ax.annotate(
        f"{values[-1]:.1%} at the end",
        (steps[-1], values[-1]),
        xytext=(0, -16),
        textcoords="offset points",
        ha="right",
        va="top",
        color=GREEN,
        fontweight="bold",
    )
    ax.set_ylim(min(0.8, values[-1] - 0.1), 1.0)
    ax.yaxis.set_major_locator(MultipleLocator(0.05 if values[-1] > 0.85 else 0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    pictures.title(ax, "Accuracy", "on test images that no worker has seen")


def _draw_totals(ax: Axes, history: History) -> None:
    steps = pictures.steps(history.losses)
    applied = np.cumsum(history.accepted)
    ax.fill_between(steps, applied, color=BLUE, linewidth=0)
    _label(ax, 0.7 * steps[-1], 0.3 * applied[-1], f"{applied[-1]:,} applied", "white")
    subtitle = "that went into a step; TensorFlow's class does not count drops"
    if history.dropped:
        dropped = np.array(history.dropped)
        ax.fill_between(steps, applied, applied + dropped, color=ORANGE, linewidth=0)
        height = 0.72 * (applied[-1] + dropped[-1])
        _label(ax, 0.38 * steps[-1], height, f"{history.dropped_in_all:,} dropped as stale", ORANGE)
        subtitle = "that the workers pushed up to each step"
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    pictures.title(ax, "Gradients in all", subtitle)


def _draw_per_step(ax: Axes, history: History, settings: Settings) -> None:
    steps = pictures.steps(history.losses)
    applied = moving_mean(history.accepted)
    ax.fill_between(steps, applied, color=BLUE, linewidth=0)
    highest = applied
    subtitle = f"applied, moving mean of {WINDOW} steps"
    if history.dropped:
        subtitle = f"applied and dropped, moving mean of {WINDOW} steps"
        highest = applied + moving_mean(np.diff(history.dropped, prepend=0))
        ax.fill_between(steps, applied, highest, color=ORANGE, linewidth=0)
    ax.axhline(settings.num_required, color="white", linewidth=1.4, linestyle=(0, (4, 3)))
    required = f"the chief waits for {settings.num_required}"
    _label(ax, 0.5 * steps[-1], 0.86 * settings.num_required, required, "white")
    ax.set_ylim(0, 1.12 * highest.max())
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    pictures.title(ax, "Gradients per step", subtitle)


def _label(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    frame = {"facecolor": "white" if color != "white" else BLUE, "linewidth": 0, "pad": 3}
    ax.text(x, y, text, color=color, fontweight="bold", ha="center", va="center", bbox=frame)
