"""The results as lines of text, and as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from condacc_bench.report.goals import Limit
from condacc_bench.report.results import Result

_MARKS = {"aim": "aim reached", "reached": "reached", "missed": "MISSED", "": ""}
_LINE = "{:<4} {:<26} {:<19} {:>11} {:>11} {:>8}  {:<12} {:<11} {}"


def header(reference: str = "reference", ours: str = "ours") -> str:
    """Returns the names of the columns of `line`; those of both sides may be given."""
    names = ("", "case", "metric", reference, ours, "ratio", "quartiles", "goal / aim", "")
    return _LINE.format(*names).rstrip()


def line(result: Result) -> str:
    """Returns a result as a line of text."""
    note = _MARKS[result.verdict]
    if result.against != "TensorFlow":
        note = f"{note} (against {result.against})".strip()
    return _LINE.format(
        result.scenario,
        result.case,
        result.metric,
        _quantity(result.metric, result.reference),
        _quantity(result.metric, result.ours),
        f"{result.ratio:.2f}x",
        "{:.2f} to {:.2f}".format(*result.quartiles),
        str(result.goal) if result.goal else "",
        note,
    ).rstrip()


def summary(results: Sequence[Result]) -> str:
    """Returns the number of goals that are reached, and the goals that are not."""
    with_goal = [result for result in results if result.goal]
    missed = [result for result in with_goal if result.verdict == "missed"]
    aims = [result for result in with_goal if result.verdict == "aim"]
    lines = [
        f"{len(with_goal) - len(missed)} of {len(with_goal)} goals reached, "
        f"{len(aims)} of them as far as the aim."
    ]
    lines += [
        f"  missed: {r.scenario} {r.case}, {r.metric}: {_judged(r)}, the goal is {r.goal}"
        for r in missed
    ]
    return "\n".join(lines)


def save(results: Sequence[Result], library: str, path: Path) -> None:
    """Writes the results, and descriptions of the machine and of the library, as JSON."""
    lines = [result.as_json() for result in results]
    record = {"machine": machine(), "library": library, "results": lines}
    path.write_text(json.dumps(record, indent=1) + "\n")


def machine() -> dict[str, object]:
    """Returns the properties of the machine and the software that affect the results."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    for text in info.read_text().splitlines() if info.exists() else []:
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return platform.machine()


def _judged(result: Result) -> str:
    return f"{result.ours:.2f}" if isinstance(result.goal, Limit) else f"{result.ratio:.2f}x"


def _quantity(metric: str, value: float) -> str:
    if metric.startswith(("growth", "peak", "left")):
        return f"{value:.2f}"
    if metric.endswith("/s"):
        return f"{value:,.0f}/s"
    if value < 1e-3:
        return f"{value * 1e6:.2f} us"
    return f"{value * 1e3:.2f} ms"
