"""The cost of consecutive sparse applies as a picture, with a curve for each implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from condacc_bench.report.results import Result

_GREY, _LIGHT = "#5b6470", "#d5d9de"
_COLORS = ("#e07b28", "#2f6db3")


def draw(result: Result, subtitle: str, path: Path) -> None:
    """Writes a PNG file with the curves of a result: each apply, and the time up to it."""
    figure = Figure(figsize=(11, 5), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.05)
    left, right = figure.subplots(1, 2)
    for (name, seconds), color in zip(result.curves.items(), _COLORS, strict=True):
        applies, take = 1e3 * np.array(seconds[:-1]), 1e3 * seconds[-1]
        _draw_each(left, name, applies, color)
        _draw_total(right, name, applies, take, color)
    _style(left, "The k-th apply")
    _style(right, "All applies up to the k-th, and the take")
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    right.set_ylim(bottom=0)
    figure.suptitle(
        f"Cost of sparse gradients, {result.case}, in milliseconds",
        fontsize=13,
        fontweight="bold",
    )
    figure.supxlabel(subtitle, color=_GREY, fontsize=9)
    figure.savefig(path, format="png")


def _draw_each(ax: Axes, name: str, applies: np.ndarray, color: str) -> None:
    growth = applies[-1] / applies[1]
    label = f"{name}: the last took {growth:.1f} times as long as the second"
    ax.plot(np.arange(1, len(applies) + 1), applies, color=color, linewidth=1.8, label=label)


def _draw_total(ax: Axes, name: str, applies: np.ndarray, take: float, color: str) -> None:
    total, last = np.cumsum(applies), len(applies)
    ax.plot(np.arange(1, last + 1), total, color=color, linewidth=2.2)
    label = f"{name}: {total[-1] + take:,.0f} in all, {take:,.0f} of them for the take"
    ax.plot(last, total[-1] + take, "o", color=color, markersize=7, label=label, clip_on=False)


def _style(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontweight="bold", fontsize=11, pad=42)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), frameon=False, fontsize=9)
    ax.set_xlabel("k", color=_GREY)
    ax.grid(color=_LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.tick_params(which="both", colors=_GREY, length=0)
