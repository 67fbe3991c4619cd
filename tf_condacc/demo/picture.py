"""The picture of a training: loss and accuracy, and what became of the gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter, StrMethodFormatter

from tf_condacc.demo.training import History, Settings

_BLUE, _ORANGE, _GREEN, _GREY = "#2f6db3", "#e07b28", "#2c8a57", "#5b6470"
_WINDOW = 25  # steps that the smooth curves average


def draw(history: History, settings: Settings, accumulator: str, path: Path) -> None:
    """Writes the picture as a PNG file."""
    figure = Figure(figsize=(11, 6.8), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.05, hspace=0.06)
    axes = figure.subplots(2, 2, sharex=True)
    _draw_loss(axes[0, 0], history)
    _draw_accuracy(axes[1, 0], history)
    _draw_totals(axes[0, 1], history)
    _draw_per_step(axes[1, 1], history, settings)
    for ax in axes.flat:
        _style(ax, len(history.losses))
    for ax in axes[1]:
        ax.set_xlabel("step", color=_GREY)
    workers = "1 worker" if settings.num_workers == 1 else f"{settings.num_workers} workers"
    figure.suptitle(
        f"Handwritten digits, learned by {workers} through {accumulator}",
        fontsize=14,
        fontweight="bold",
    )
    figure.savefig(path, format="png")


def _draw_loss(ax: Axes, history: History) -> None:
    losses = np.maximum(history.losses, 1e-6)
    ax.plot(_steps(history), losses, color=_BLUE, alpha=0.3, linewidth=0.8)
    smooth = np.exp(_moving_mean(np.log(losses)))
    ax.plot(_steps(history), smooth, color=_BLUE, linewidth=2.2)
    ax.set_yscale("log")
    ax.minorticks_off()
    _title(ax, "Training loss", "of the gradients in each step, and its moving mean")


def _draw_accuracy(ax: Axes, history: History) -> None:
    steps, values = zip(*history.accuracies, strict=True)
    ax.plot(steps, values, color=_GREEN, linewidth=2.2)
    ax.plot(steps[-1], values[-1], "o", color=_GREEN, markersize=7, clip_on=False)
    ax.annotate(
        f"{values[-1]:.1%} at the end",
        (steps[-1], values[-1]),
        xytext=(0, -16),
        textcoords="offset points",
        ha="right",
        va="top",
        color=_GREEN,
        fontweight="bold",
    )
    ax.set_ylim(min(0.8, values[-1] - 0.1), 1.0)
    ax.yaxis.set_major_locator(MultipleLocator(0.05 if values[-1] > 0.85 else 0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _title(ax, "Accuracy", "on test images that no worker has seen")


def _draw_totals(ax: Axes, history: History) -> None:
    steps = _steps(history)
    applied = np.cumsum(history.accepted)
    ax.fill_between(steps, applied, color=_BLUE, linewidth=0)
    _label(ax, 0.7 * steps[-1], 0.3 * applied[-1], f"{applied[-1]:,} applied", "white")
    subtitle = "that went into a step; TensorFlow's class does not count drops"
    if history.dropped:
        dropped = np.array(history.dropped)
        ax.fill_between(steps, applied, applied + dropped, color=_ORANGE, linewidth=0)
        height = 0.72 * (applied[-1] + dropped[-1])
        _label(
            ax, 0.38 * steps[-1], height, f"{history.dropped_in_all:,} dropped as stale", _ORANGE
        )
        subtitle = "that the workers pushed up to each step"
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _title(ax, "Gradients in all", subtitle)


def _draw_per_step(ax: Axes, history: History, settings: Settings) -> None:
    steps = _steps(history)
    applied = _moving_mean(history.accepted)
    ax.fill_between(steps, applied, color=_BLUE, linewidth=0)
    highest = applied
    subtitle = f"applied, moving mean of {_WINDOW} steps"
    if history.dropped:
        subtitle = f"applied and dropped, moving mean of {_WINDOW} steps"
        highest = applied + _moving_mean(np.diff(history.dropped, prepend=0))
        ax.fill_between(steps, applied, highest, color=_ORANGE, linewidth=0)
    ax.axhline(settings.num_required, color="white", linewidth=1.4, linestyle=(0, (4, 3)))
    required = f"the chief waits for {settings.num_required}"
    _label(ax, 0.5 * steps[-1], 0.86 * settings.num_required, required, "white")
    ax.set_ylim(0, 1.12 * highest.max())
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    _title(ax, "Gradients per step", subtitle)


def _steps(history: History) -> np.ndarray:
    return np.arange(1, len(history.losses) + 1)


def _moving_mean(values: list[float] | np.ndarray) -> np.ndarray:
    """Mean of the `_WINDOW` values around each place, of fewer near the ends."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    centers = np.arange(len(values))
    starts = np.maximum(centers - _WINDOW // 2, 0)
    ends = np.minimum(centers + _WINDOW // 2 + 1, len(values))
    return (sums[ends] - sums[starts]) / (ends - starts)


def _label(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    frame = {"facecolor": "white" if color != "white" else _BLUE, "linewidth": 0, "pad": 3}
    ax.text(x, y, text, color=color, fontweight="bold", ha="center", va="center", bbox=frame)


def _title(ax: Axes, title: str, subtitle: str) -> None:
    ax.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=22)
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=_GREY, fontsize=9.5, va="bottom")


def _style(ax: Axes, last_step: int) -> None:
    ax.set_xlim(0, last_step)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(_GREY)
    ax.tick_params(colors=_GREY, length=0, labelbottom=True)
