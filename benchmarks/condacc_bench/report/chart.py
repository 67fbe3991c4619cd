"""The results as a picture, with one dot per line on a scale of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory

from condacc_bench.report.results import Result

_GREY, _LIGHT = "#5b6470", "#d5d9de"
_COLORS = {"aim": "#2c8a57", "reached": "#2f6db3", "missed": "#cf3f2e", "": "#8a93a0"}
_MEANINGS = {
    "aim": "aim reached",
    "reached": "goal reached",
    "missed": "goal missed",
    "": "no goal set",
}
_TITLES = {
    "D1": "D1  N gradients applied, then taken",
    "D2": "D2  many small variables",
    "D3": "D3  threads on one accumulator",
    "D4": "D4  other types",
    "S1": "S1  sparse, sorted unique rows",
    "SZ": "SZ  sparse, power-law rows",
    "S2": "S2  sparse, one apply after another",
    "M": "M  peak memory",
    "T": "T  sum of N towers",
    "P": "P  methods in eager mode, against raw ops",
    "C": "C  many contributors, against ten",
    "F": "F  in the order of contributors, against that of arrival",
    "V": "V  during saves, against none",
    "E": "E  a step of two workers in one process",
    "R": "R  steps per second with processes",
    "G": "G  micro-batches, beside Keras and loops by hand",
}
_TICKS = [0.125, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]


def draw(results: Sequence[Result], subtitle: str, path: Path) -> None:
    """Writes a PNG file. Comparisons with the machine's limit are only in the table."""
    shown = [result for result in results if result.against != "limit"]
    rows = _rows(shown)
    height = 1.9 + 0.265 * (len(shown) + 1.5 * len(_scenarios(shown)))
    figure = Figure(figsize=(10.5, height), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    ax = figure.subplots()
    for y, result in rows:
        _draw_row(ax, y, result)
    _draw_scale(ax, rows)
    _draw_titles(ax, rows)
    _draw_legend(ax, shown)
    ax.set_title(
        "Times better than TensorFlow's own accumulator",
        loc="left",
        fontsize=14,
        fontweight="bold",
        pad=50,
    )
    ax.annotate(
        subtitle,
        (0, 1),
        xytext=(0, 34),
        xycoords="axes fraction",
        textcoords="offset points",
        color=_GREY,
        fontsize=9.5,
    )
    figure.savefig(path, format="png")


def _scenarios(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.scenario for result in results))


def _rows(results: Sequence[Result]) -> list[tuple[float, Result]]:
    """Returns the heights of lines, downwards from 0, with room for a title above each scenario."""
    rows: list[tuple[float, Result]] = []
    y = 0.0
    for scenario in _scenarios(results):
        y -= 1.5
        for result in results:
            if result.scenario == scenario:
                rows.append((y, result))
                y -= 1
    return rows


def _draw_row(ax: Axes, y: float, result: Result) -> None:
    color = _COLORS[result.verdict]
    ax.plot([1, result.ratio], [y, y], color=color, linewidth=2.4, solid_capstyle="butt")
    ax.plot(result.ratio, y, "o", color=color, markersize=7.5)
    wanted = result.goal_as_ratio
    if wanted:
        goal = {"markeredgewidth": 1.6, "color": "#222222", "zorder": 4}
        ax.plot(wanted.at_least, y, "|", markersize=11, **goal)
        if wanted.aim:
            ax.plot(wanted.aim, y, "D", markersize=4.5, fillstyle="none", **goal)
    ax.annotate(
        f"{result.ratio:.2f}" if result.ratio < 10 else f"{result.ratio:.0f}",
        (1, y),
        xycoords=blended_transform_factory(ax.transAxes, ax.transData),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=color,
        fontweight="bold",
        fontsize=9,
    )


def _draw_scale(ax: Axes, rows: Sequence[tuple[float, Result]]) -> None:
    ratios = [result.ratio for _, result in rows]
    wanted = [result.goal_as_ratio for _, result in rows if result.goal]
    goals = [goal.aim or goal.at_least for goal in wanted]
    lowest_goals = [goal.at_least for goal in wanted]
    ax.set_xscale("log")
    ax.set_xlim(min(0.8, *ratios, *lowest_goals) / 1.15, max(2, *ratios, *goals) * 1.2)
    low, high = ax.get_xlim()
    ax.set_xticks([tick for tick in _TICKS if low <= tick <= high])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))
    ax.axvline(1, color="#222222", linewidth=1.2, zorder=1)
    ax.set_yticks([y for y, _ in rows], [_label(result) for _, result in rows], fontsize=9)
    ax.set_ylim(rows[-1][0] - 0.8, 0)
    ax.grid(axis="x", color=_LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="both", length=0, colors=_GREY)
    ax.tick_params(axis="x", labeltop=True)


def _label(result: Result) -> str:
    metric = "" if result.metric == "cycle" else f", {result.metric}"
    against = "" if result.against == "TensorFlow" else f", against {result.against}"
    return f"{result.case}{metric}{against}"


def _draw_titles(ax: Axes, rows: Sequence[tuple[float, Result]]) -> None:
    seen: set[str] = set()
    for y, result in rows:
        if result.scenario not in seen:
            seen.add(result.scenario)
            ax.annotate(
                _TITLES[result.scenario],
                (0, y + 0.85),
                xycoords=blended_transform_factory(ax.transAxes, ax.transData),
                xytext=(-6, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontweight="bold",
                fontsize=9.5,
            )


def _draw_legend(ax: Axes, results: Sequence[Result]) -> None:
    verdicts = {result.verdict for result in results}
    entries = [
        Line2D([], [], color=_COLORS[verdict], marker="o", markersize=7, linewidth=2.4, label=text)
        for verdict, text in _MEANINGS.items()
        if verdict in verdicts
    ]
    mark = {"color": "#222222", "linestyle": "none"}
    entries.append(Line2D([], [], marker="|", markersize=11, label="goal", **mark))
    entries.append(
        Line2D([], [], marker="D", markersize=4.5, fillstyle="none", label="aim", **mark)
    )
    ax.legend(
        handles=entries,
        loc="upper center",
        bbox_to_anchor=(0.5, -24 / (72 * ax.figure.get_figheight())),
        ncols=len(entries),
        frameon=False,
        fontsize=9,
    )
