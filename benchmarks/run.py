#!/usr/bin/env python3
"""Times this project's accumulators and TensorFlow's own side by side.

Prints a table of ratios with the goal beside each, and writes ``latest.json`` to the output folder;
scenario S2 also draws ``latest.growth.png``. ``condacc_bench/__init__.py`` describes the method.

What is measured is the library that users get: that of a wheel of this source tree, which is first
made and installed into an environment in ``build/bench``. With ``--tree`` it is the library of
``make build``, and with ``--installed`` that of the package that this Python imports.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condacc_bench.report.results import Result
    from condacc_bench.scales import Scale

_HERE = Path(__file__).resolve().parent
_TREE = _HERE.parent


def main(arguments: list[str] | None = None) -> int:
    """Runs the requested scenarios and returns the exit status."""
    options = _parse(arguments)
    try:
        if options.tree:
            sys.path.insert(0, str(_TREE))
        elif not (options.installed or options.noise):
            return _run_installed(sys.argv[1:] if arguments is None else arguments)
        sys.path.append(str(_TREE))  # Clusters take free ports with `tests.support`.
        return _run(options)
    except KeyboardInterrupt:
        print("Interrupted: nothing is written.", file=sys.stderr)
        return 130


def _run_installed(arguments: Sequence[str]) -> int:
    """Runs the benchmark in an environment that has the wheel of this tree."""
    from condacc_bench import installed

    print("Making a wheel and installing it.", file=sys.stderr, flush=True)
    folder = _TREE / "build" / "bench"
    try:
        with tempfile.TemporaryDirectory() as place:
            installed.make_environment(installed.make_wheel(_TREE, Path(place)), folder)
    except subprocess.CalledProcessError:
        return 1  # pip has said why.
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "caches")}
    environment.pop("PYTHONPATH", None)  # It may name the tree.
    python = str(installed.python_of(folder))
    os.execve(python, [python, str(_HERE / "run.py"), "--installed", *arguments], environment)


def _run(options: argparse.Namespace) -> int:
    from condacc_bench import quiet

    with quiet.without_log():
        import tensorflow as tf
    from condacc_bench import implementations, runs, scenarios
    from condacc_bench.cases import limit
    from condacc_bench.report import table

    tf.get_logger().setLevel("ERROR")
    if options.limit and not limit.compiler():
        print("--limit needs a C++ compiler: install g++", file=sys.stderr)
        return 1
    run = runs.Run(
        ours=implementations.tensorflow("tf again") if options.noise else implementations.condacc(),
        reference=implementations.tensorflow(),
        scale=_scale(options),
        with_limit=options.limit,
    )
    about = table.machine()
    subject = "{tensorflow} on {cores} cores of {cpu}, load {load}, {day}".format(
        **about, day=time.strftime("%Y-%m-%d")
    )
    library = "TensorFlow's own" if options.noise else implementations.measured_library(_TREE)
    print(f"{library}\nTensorFlow {subject}\n\n{table.header()}", flush=True)
    results = []
    for name in options.scenario:
        for result in scenarios.SCENARIOS[name](run):
            results.append(result)
            print(table.line(result), flush=True)
    print(f"\n{table.summary(results)}")
    options.output.mkdir(parents=True, exist_ok=True)
    table.save(results, library, options.output / "latest.json")
    pictures = [
        _draw(result, f"TensorFlow {subject}", options.output)
        for result in results
        if result.curves
    ]
    print(f"Written to {options.output}: {', '.join(['latest.json', *filter(None, pictures)])}")
    return 0


def _scale(options: argparse.Namespace) -> Scale:
    from condacc_bench import scales

    if options.smoke:
        return scales.smoke_scale()
    if options.full:
        return scales.full_scale(options.seconds)
    return scales.default_scale(options.seconds)


def _draw(result: Result, subtitle: str, folder: Path) -> str | None:
    """Draws the curves of a result and returns the name of the file, or None without matplotlib."""
    try:
        from condacc_bench.report import growth_chart
    except ModuleNotFoundError as error:
        print(f"No picture: it needs {error.name}: pip install {error.name}", file=sys.stderr)
        return None
    name = "latest.growth.png"
    growth_chart.draw(result, subtitle, folder / name)
    return name


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = ["D1", "D2", "D3", "D4", "S1", "SZ", "S2", "M", "T", "P", "C", "F", "V", "E", "R", "G"]
    add("--scenario", nargs="+", choices=names, default=names, metavar="S", help=" ".join(names))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="all sizes; needs 8 GB and an hour")
    size.add_argument("--smoke", action="store_true", help="tiny sizes: shows that it works")
    add(
        "--seconds", type=float, default=5.0, help="for each case, if 5 rounds are done by then (5)"
    )
    add("--limit", action="store_true", help="D1, S1, SZ: compare with the machine's limit, too")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tree", action="store_true", help="measure the library of `make build`")
    which.add_argument("--installed", action="store_true", help="measure that of this Python")
    add("--noise", action="store_true", help="compare TensorFlow's own with itself")
    add("--output", type=Path, default=_HERE / "results", help="folder (benchmarks/results)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
