"""The pictures of the programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter, StrMethodFormatter

from tf_condacc.examples.common import plotting, rounds
from tf_condacc.examples.common.plotting import BLUE, DASHES, GREEN, GREY, ORANGE, WINDOW
from tf_condacc.examples.common.records import AsyncHistory, ClusterHistory, History, Run
from tf_condacc.examples.common.tower_runs import TOLERANCE, Difference

_ACCURACY = ("Accuracy", "on test images that no worker has seen")  # Title and subtitle.
_NO_DIFFERENCE = 1e-9  # The value at which a difference of zero is drawn.


def digits(history: History, settings: rounds.Settings) -> None:
    """Draws loss, accuracy, and the numbers of applied and dropped gradients."""
    figure = _figure_of_workers(11, 6.8, "Handwritten digits", settings)
    axes = figure.subplots(2, 2, sharex=True)
    (loss, in_all), (accuracy, per_step) = axes
    plotting.curve(loss, history.losses, BLUE, log=True, faint=True)
    plotting.title(loss, "Training loss", "of the gradients in each step, and its moving mean")
    _accuracy(accuracy, history.accuracies, GREEN)
    last = history.accuracies[-1]
    plotting.note(
        accuracy, last, f"{last[1]:.1%} at the end", GREEN, (0, -16), ha="right", va="top"
    )
    plotting.title(accuracy, *_ACCURACY)
    accuracy.set_ylim(min(0.8, last[1] - 0.1), 1.0)
    accuracy.yaxis.set_major_locator(MultipleLocator(0.05 if last[1] > 0.85 else 0.2))
    _totals(in_all, history)
    _per_step(per_step, history, settings.required)
    for ax in axes.flat:
        plotting.style(ax, len(history.losses), "step" if ax in axes[1] else "")
    figure.savefig(settings.output, format="png")


def word_vectors(history: History, settings: rounds.Settings, num_words: int) -> None:
    """Draws the loss and the number of updated rows, of as many as there are words."""
    figure = _figure_of_workers(11, 4.4, "Word vectors", settings)
    loss, rows = figure.subplots(1, 2)
    smooth = plotting.curve(loss, history.losses, BLUE, faint=True)
    end = (len(smooth), smooth[-1])
    plotting.note(loss, end, f"{smooth[-1]:.2f} at the end", BLUE, (0, 14), ha="right", va="bottom")
    plotting.title(loss, "Training loss", "of the gradients in each step, and its moving mean")
    pairs = zip(
        ("of words", "of neighbours"), (BLUE, GREEN), zip(*history.rows, strict=True), strict=True
    )
    for name, color, counts in pairs:
        smooth = plotting.curve(rows, counts, color)
        middle = (0.5 * len(smooth), smooth[len(smooth) // 2])
        plotting.note(rows, middle, name, color, (0, -8), ha="center", va="top")
    rows.axhline(num_words, color=GREY, linewidth=1.4, linestyle=DASHES)
    rows.set_ylim(0, 1.08 * num_words)
    rows.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    subtitle = f"per step, of {num_words:,} in each embedding; moving mean of {WINDOW} steps"
    plotting.title(rows, "Rows updated", subtitle)
    for ax in (loss, rows):
        plotting.style(ax, len(history.losses), "step")
    figure.savefig(settings.output, format="png")


def async_digits(histories: Mapping[str, AsyncHistory], limit: int, path: Path) -> None:
    """Draws the staleness of the gradients of two trainings, and what they have learned.

    Args:
        histories: The records by the trainings' names. The first is the one that drops gradients.
        limit: Highest staleness in that training.
        path: Path of the PNG file to write.
    """
    num_workers = len(next(iter(histories.values())).counts)
    title = f"learned by {_workers(num_workers)} that do not wait for each other"
    figure = plotting.new_figure(11, 7.2, f"Handwritten digits, {title}")
    upper, (accuracy, loss) = figure.subplots(2, 2)
    turns = [turn for history in histories.values() for turn in history.turns]
    last_step = max(turn.step for turn in turns) + 1
    for number, (name, history) in enumerate(histories.items()):
        ax, color = upper[number], (BLUE, GREEN)[number]
        _staleness(ax, name, history, color)
        ax.set_ylim(-0.5, 1.12 * max(turn.staleness for turn in turns) + 1)
        plotting.style(ax, last_step, "global step")
        _accuracy(accuracy, history.accuracies, color)
        text = f"{name}: {history.accuracies[-1][1]:.1%} at the end"
        plotting.write(accuracy, 0.25 - 0.1 * number, text, color)
        plotting.curve(loss, history.losses, color, log=True)
    # The line is between the highest accepted and the lowest dropped staleness.
    upper[0].axhline(limit + 0.5, color=GREY, linewidth=1.4, linestyle=DASHES)
    end = (last_step, limit + 0.5)
    plotting.note(upper[0], end, f"at most {limit}", GREY, (-4, 4), ha="right", va="bottom")
    plotting.title(accuracy, *_ACCURACY)
    accuracy.set_ylim(0.0, 1.0)
    plotting.title(
        loss, "Training loss", f"of every batch, also of dropped gradients; moving mean of {WINDOW}"
    )
    for ax in (accuracy, loss):
        plotting.style(ax, len(history.turns), "gradients computed, applied or not")
    figure.savefig(path, format="png")


def cluster_digits(history: ClusterHistory, mode: str, path: Path) -> None:
    """Draws what was learned on a cluster, how fast, and when a worker was lost and came back.

    Args:
        history: The record.
        mode: "sync" or "async".
        path: Path of the PNG file to write.
    """
    kind = {"sync": "synchronous", "async": "asynchronous"}[mode]
    figure = plotting.new_figure(11, 6.8, f"Handwritten digits, learned on a cluster, {kind}")
    axes = figure.subplots(2, 2, sharex=True)
    (loss, speed), (accuracy, dropped) = axes
    loss.plot(history.moments, history.losses, color=BLUE, linewidth=2.2)
    loss.set_yscale("log")
    loss.minorticks_off()
    plotting.title(loss, "Training loss", "on all training images")
    _accuracy(accuracy, list(zip(history.moments, history.accuracies, strict=True)), GREEN)
    title, subtitle = _ACCURACY
    plotting.title(accuracy, title, f"{subtitle}; {history.accuracies[-1]:.1%} at the end")
    # The speed up to each measurement. There is none up to the first one.
    speeds = [history.steps_per_second[0], *history.steps_per_second]
    speed.step(history.moments, speeds, color=BLUE, linewidth=2, where="pre")
    speed.set_ylim(0, 1.3 * max(speeds))  # The names of the faults are above the line.
    plotting.title(speed, "Speed", "global steps per second, all workers together")
    _dropped(dropped, history)
    for ax in axes.flat:
        plotting.style(ax, history.moments[-1], "seconds" if ax in axes[1] else "")
        for _, at in history.faults:
            ax.axvline(at, color=GREY, linewidth=1.4, linestyle=DASHES)
    for event, at in history.faults:
        _name_fault(speed, event, at)
    figure.savefig(path, format="png")


def towers(runs: Sequence[Run], differences: Sequence[Difference], path: Path) -> None:
    """Draws losses, differences of weights, and step times.

    Args:
        runs: The runs with batch normalization.
        differences: The differences of the runs without it.
        path: Path of the PNG file to write.
    """
    figure = plotting.new_figure(13, 4.6, "Handwritten digits, learned with towers")
    losses, weights, times = figure.subplots(1, 3, width_ratios=[4, 4, 2.6])
    colors = [(BLUE, ORANGE, GREEN, GREY)[number % 4] for number in range(len(runs))]
    for run, color in zip(runs, colors, strict=True):
        plotting.curve(losses, run.losses, color, log=True)
        losses.lines[-1].set_label(f"{run.title}, {run.accuracy:.1%} right")
    plotting.legend(losses)
    plotting.style(losses, len(runs[0].losses), "step")
    plotting.title(
        losses, "Training loss", "with batch normalization, whose statistics are per tower"
    )
    _differences(weights, differences)
    names, milliseconds = [run.title for run in runs], [1e3 * run.step_seconds for run in runs]
    times.bar(names, milliseconds, color=colors, width=0.6)
    for place, value in enumerate(milliseconds):
        times.text(place, value, f"{value:.1f}", ha="center", va="bottom", color=GREY)
    plotting.style(times, len(runs))
    times.set_xlim(-0.6, len(runs) - 0.4)
    times.grid(visible=False)
    times.set_yticks([])
    plotting.title(times, "Step time", "ms, on this machine's CPU")
    figure.savefig(path, format="png")


def _figure_of_workers(width: float, height: float, what: str, settings: rounds.Settings) -> Figure:
    title = (
        f"{what}, learned by {_workers(settings.workers)} through {rounds.title(settings.backend)}"
    )
    return plotting.new_figure(width, height, title)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _accuracy(ax: Axes, accuracies: Sequence[tuple[float, float]], color: str) -> None:
    """Draws the accuracy on test examples, with a dot at the end."""
    steps, values = zip(*accuracies, strict=True)
    ax.plot(steps, values, color=color, linewidth=2.2)
    ax.plot(steps[-1], values[-1], "o", color=color, markersize=7, clip_on=False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _totals(ax: Axes, history: History) -> None:
    """Draws how many gradients were applied and dropped up to each step."""
    steps, applied = plotting.steps(history.losses), np.cumsum(history.accepted)
    ax.fill_between(steps, applied, color=BLUE, linewidth=0)
    plotting.label(ax, 0.7 * steps[-1], 0.3 * applied[-1], f"{applied[-1]:,} applied", "white")
    subtitle = "that went into a step; TensorFlow's class does not count drops"
    if history.dropped:
        every = applied + np.array(history.dropped)
        ax.fill_between(steps, applied, every, color=ORANGE, linewidth=0)
        text = f"{history.dropped_in_all:,} dropped as stale"
        plotting.label(ax, 0.38 * steps[-1], 0.72 * every[-1], text, ORANGE)
        subtitle = "that the workers pushed up to each step"
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    plotting.title(ax, "Gradients in all", subtitle)


def _per_step(ax: Axes, history: History, required: int) -> None:
    """Draws how many gradients were applied and dropped in each step."""
    steps, applied = plotting.steps(history.losses), plotting.moving_mean(history.accepted)
    ax.fill_between(steps, applied, color=BLUE, linewidth=0)
    every, subtitle = applied, f"applied, moving mean of {WINDOW} steps"
    if history.dropped:
        every = applied + plotting.moving_mean(np.diff(history.dropped, prepend=0))
        ax.fill_between(steps, applied, every, color=ORANGE, linewidth=0)
        subtitle = f"applied and dropped, moving mean of {WINDOW} steps"
    ax.axhline(required, color="white", linewidth=1.4, linestyle=DASHES)
    plotting.label(ax, 0.5 * steps[-1], 0.86 * required, f"the chief waits for {required}", "white")
    ax.set_ylim(0, 1.12 * every.max())
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    plotting.title(ax, "Gradients per step", subtitle)


def _dropped(ax: Axes, history: ClusterHistory) -> None:
    """Draws how many gradients had been dropped at each moment, or says that none were."""
    subtitle = "up to each moment, of all workers"
    if history.dropped[-1] > 0:
        ax.step(history.moments, history.dropped, color=ORANGE, linewidth=2.2, where="post")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        subtitle += "; none were dropped"
        ax.set_yticks([])
    ax.set_ylim(0, 1.08 * max(history.dropped[-1], 1))
    plotting.title(ax, "Gradients dropped", subtitle)


def _name_fault(ax: Axes, event: str, at: float) -> None:
    """Writes "worker killed" or "worker back" beside its line, near the top of the axes.

    The first stands to the left of its line and the second to the right and lower, if they fit.
    """
    share, is_back = at / ax.get_xlim()[1], event == "back"
    is_right = share < 0.8 if is_back else share < 0.25
    text = f" worker {event} "
    look: dict[str, Any] = {"color": GREY, "fontweight": "bold"}
    height = 0.86 if is_back else 0.95
    alignment = "left" if is_right else "right"
    where = ax.get_xaxis_transform()
    ax.text(at, height, text, transform=where, ha=alignment, va="center", **look)


def _staleness(ax: Axes, name: str, history: AsyncHistory, color: str) -> None:
    """Draws a dot for each gradient, at its staleness."""
    for line, (word, accepted) in enumerate({"applied": True, "dropped": False}.items()):
        turns = [turn for turn in history.turns if turn.accepted == accepted]
        steps, staleness = [turn.step for turn in turns], [turn.staleness for turn in turns]
        dots = color if accepted else ORANGE
        ax.scatter(steps, staleness, s=15, color=dots, alpha=0.7, linewidth=0, clip_on=False)
        if turns:
            plotting.write(ax, 0.97 - 0.1 * line, f"{len(turns):,} {word}", dots)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    plotting.title(ax, f"Staleness, {name}", "of each gradient when it was ready to be applied")


def _differences(ax: Axes, differences: Sequence[Difference]) -> None:
    """Draws how the weights of each run differ from those of one tower."""
    ax.axhline(TOLERANCE, color=GREY, linewidth=1, linestyle=DASHES)
    ax.text(0.5, TOLERANCE * 1.3, "tolerance", color=GREY, fontsize=9)
    for number, difference in enumerate(differences):
        values = np.maximum(difference.largest, _NO_DIFFERENCE)
        color = (ORANGE, GREEN, GREY)[number // 2 % 3]
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
        plotting.legend(ax, top=0.81)  # Below the line of the tolerance.
        plotting.style(ax, len(differences[0].largest) - 1, "step")
    subtitle = "largest, from one tower on the whole batch; no batch norm"
    plotting.title(ax, "Difference of weights", subtitle)
