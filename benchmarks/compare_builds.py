#!/usr/bin/env python3
"""Times two builds of tf_condacc side by side, to see what a change did to the speed.

BEFORE is a folder that contains a built ``tf_condacc``: another worktree after ``make build``, or
the site-packages of an environment in which it is installed. Each build has a process of its own.
Both run the same cases, with the code of this folder, and are measured in turn; a line gives the
median of the ratios of these rounds, where 1.05x means that the new build is 5 % faster. A third
process runs BEFORE once more: the last column, the ratio of BEFORE to itself, shows how far such a
median may be from 1 without any change. The speed of a process depends on where its memory lies, so
they are started several times.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condacc_bench.rounds import Samples

_HERE = Path(__file__).resolve().parent
_MAX_ROUNDS = 100_000


def main(arguments: list[str] | None = None) -> int:
    """Measures the requested cases and returns the exit status."""
    options = _parse(arguments)
    for folder in (options.before, options.after):
        if not list((folder / "tf_condacc").glob("_condacc_ops*.so")):
            print(
                f"{folder} has no built tf_condacc: name a tree after `make build`, or the "
                "site-packages of an environment in which tf_condacc is installed",
                file=sys.stderr,
            )
            return 1
    try:
        _compare(options)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    return 0


def _compare(options: argparse.Namespace) -> None:
    from condacc_bench import quiet

    with quiet.without_log():
        from condacc_bench import other_build
        from condacc_bench.report import results, table

    names = [name for name in other_build.CASES if name.startswith(tuple(options.case))]
    all_samples: dict[str, Samples] = {
        name: {side: {} for side in ("before", "after", "again")} for name in names
    }
    for number in range(options.processes):
        print(f"processes {number + 1} of {options.processes}", file=sys.stderr)
        _measure(options, all_samples)
    print(table.header("before", "after"))
    for name, samples in all_samples.items():
        scenario, _, case = name.partition(" ")
        fields = {"scenario": scenario, "case": case, "parameters": {}, "against": "before"}
        for metric in samples["after"]:
            result = results.compare(samples, "after", "before", metric, **fields)
            itself = results.compare(samples, "again", "before", metric, **fields)
            spread = "{:.2f} to {:.2f}".format(*itself.quartiles)
            print(f"{table.line(result)}, itself {itself.ratio:.2f}x ({spread})")


def _measure(options: argparse.Namespace, all_samples: dict[str, Samples]) -> None:
    """Starts the processes and adds their samples of each case."""
    from condacc_bench import rounds
    from condacc_bench.other_build import OtherBuild

    budget = rounds.Budget(min_rounds=2, max_rounds=_MAX_ROUNDS, seconds=options.seconds)
    folders = {"before": options.before, "after": options.after, "again": options.before}
    builds = {side: OtherBuild(folder) for side, folder in folders.items()}
    try:
        for name, samples in all_samples.items():
            cases = {side: build.case(name) for side, build in builds.items()}
            for side, metrics in rounds.run_rounds(cases, budget).items():
                for metric, values in metrics.items():
                    samples[side].setdefault(metric, []).extend(values)
            rounds.close(cases)
    finally:
        for build in builds.values():
            build.close()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("before", type=Path, help="folder of the build to compare with")
    add("--after", type=Path, default=_HERE.parent, help="folder of the other build (this tree)")
    add("--case", nargs="+", default=[""], metavar="C", help="what names of cases begin with (all)")
    add("--seconds", type=float, default=10.0, help="for each case and start of the processes (10)")
    add("--processes", type=int, default=3, help="how many times the processes are started (3)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
