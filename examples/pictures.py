"""The style of the examples' pictures. What is worth copying is in the programs themselves."""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Read when TensorFlow is imported.

try:
    import tqdm  # noqa: F401 (The programs use it.)
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter
except ImportError as error:
    sys.exit(f"{sys.argv[0]} needs {error.name.split('.')[0]}: pip install matplotlib tqdm")

import numpy as np

BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#e07b28", "#2c8a57", "#5b6470"
DASHES = (0, (4, 3))


def positive(text):
    """Returns the value of an option, an integer of at least 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return int(text)


def file(text):
    """Returns the value of an option, a file in a folder that exists."""
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {Path(text).parent}")
    return Path(text)


def figure(title, rows, columns, height):
    """Returns a figure and its axes: `[rows, columns]`."""
    made = Figure(figsize=(5.5 * columns, height), dpi=150, layout="constrained")
    made.suptitle(title, fontsize=14, fontweight="bold")
    made.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.05, hspace=0.06)
    return made, made.subplots(rows, columns, squeeze=False)


def style(ax, title, subtitle, xlabel, xmax):
    """Gives axes a title and a subtitle, and a horizontal axis from 0 to a value."""
    ax.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=22)
    ax.text(0, 1.035, subtitle, transform=ax.transAxes, color=GREY, fontsize=9.5)
    ax.set_xlabel(xlabel, color=GREY)
    ax.set_xlim(0, xmax)
    ax.grid(axis="y", color="#d5d9de", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, length=0)


def moving_mean(values, window=25):
    """Returns the mean of the values around each value, of fewer at both ends: `[n]`."""
    sums = np.cumsum([0.0, *values])
    centers = np.arange(len(values))
    starts = np.maximum(centers - window // 2, 0)
    ends = np.minimum(centers + window // 2 + 1, len(values))
    return (sums[ends] - sums[starts]) / (ends - starts)


def loss(ax, x, losses, color, label=None, smooth=True):
    """Draws losses on a logarithmic axis, by default as their moving mean."""
    logs = np.log(np.maximum(losses, 1e-6))
    ax.plot(x, np.exp(moving_mean(logs) if smooth else logs), color=color, lw=2.2, label=label)
    ax.set_yscale("log")
    ax.minorticks_off()


def accuracy(ax, x, accuracies, color, label=None):
    """Draws accuracies, with a dot at the last one."""
    ax.plot(x, accuracies, color=color, lw=2.2, label=label)
    ax.plot(x[-1:], accuracies[-1:], color=color, marker="o", markersize=7, clip_on=False)
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def legend(ax):
    """Names the curves in a row beside the title, where they hide nothing."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.01, 1.08), "ncols": 3, "borderpad": 0}
    look = {"labelcolor": GREY, "frameon": False, "fontsize": 9.5, "columnspacing": 1.2}
    ax.legend(handlelength=1.2, handletextpad=0.5, **place, **look)
