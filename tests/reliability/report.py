"""Runs the tools that look for bugs, and writes what they found into docs/reliability.md.

usage: python -m tests.reliability.report [SECONDS [TOOL ...]]

Each tool runs for about SECONDS, by default a minute. With names of tools, only their rows are
replaced. The exit status is 1 if a tool has found something.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.processes.forked_python import fork_server, forked_python
from tests.reliability import faults

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
_HEAD = ["| Tool | What it did | Seconds | Commit |", "|---|---|---|---|"]
_SCHEDULES_IN_A_SECOND = 2000
_CALLS_IN_A_SECOND = 60  # Of junk.


@dataclasses.dataclass(frozen=True)
class Tool:
    """A tool that looks for bugs.

    Attributes:
        name: The name in the table.
        command: Returns the command for so many seconds.
        figure: A pattern of what the command prints about what it did.
        text: What the table says, with the groups of the pattern.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    figure: str
    text: str = "{0}"


def _tests(*files: str) -> Callable[[int], Sequence[str]]:
    """Returns the command of long tests, whose time is fixed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "long", *files]
    return lambda seconds: command


def _module(name: str, number: Callable[[int], float]) -> Callable[[int], Sequence[str]]:
    return lambda seconds: [sys.executable, "-m", name, f"{number(seconds):g}"]


def _make(*words: str) -> Callable[[int], Sequence[str]]:
    return lambda seconds: ["make", *(word.format(seconds) for word in words)]


def _schedules(seconds: int) -> Sequence[str]:
    rounds = f"--test_env=TF_CONDACC_TEST_ROUNDS={seconds * _SCHEDULES_IN_A_SECOND}"
    options = ["--test_output=all", "--nocache_test_results", "--color=no", rounds]
    options.append("--test_env=TF_CONDACC_TEST_SEED=new")
    return [".tools/bazelisk", "test", *options, "//tests/cc/explorer:schedules"]


TOOLS = [
    Tool(
        "Schedules of the core",
        _schedules,
        r"(\w+: [\d,]+ schedules)",
    ),
    Tool("Planted bugs", _make("test-planted"), r"(\d+ of \d+ planted bugs were found)"),
    Tool(
        "Mutants of the core",
        _make("test-mutants", "SECONDS={}"),
        r"(\d+ mutants: \d+ were found, .* survived)",
    ),
    Tool(
        "Fuzzing of the core",
        _make("fuzz", "SECONDS={}"),
        r"stat::number_of_executed_units: (\d+)",
        "{0} programs of calls, under the sanitizers",
    ),
    Tool(
        "Junk at every op",
        _module("tests.junk.junk", lambda seconds: seconds * _CALLS_IN_A_SECOND),
        r"(\d+ calls of \d+ ops)",
        "{0}: no death, no hang, no changed state after an error",
    ),
    Tool(
        "Junk at the parsers",
        _tests("tests/junk/test_parsers.py"),
        r"(\d+) passed",
        "{0} parsers with 5,000 inputs each",
    ),
    Tool(
        "Programs against NumPy",
        _tests(
            "tests/accumulators/test_programs.py",
            "tests/accumulators/micro_batches/test_programs.py",
            "tests/drop_stale/test_programs.py",
            "tests/towers/test_programs.py",
        ),
        r"(\d+) passed",
        "{0} kinds and modes, with 150 to 500 programs each",
    ),
    Tool(
        "Soak",
        _module("tests.soak.soak", lambda seconds: seconds / 60),
        r"(\d+) gradients of \d+ accumulators",
        "{0} gradients from 16 threads, all accounted for",
    ),
    Tool(
        "Processes that freeze",
        _tests("tests/sync_replicas/clusters/test_frozen.py"),
        r"(\d+) passed",
        "each process at 13 points of the protocol",
    ),
    Tool(
        "Clocks and disks",
        _tests("tests/sync_replicas/clusters/test_clock_and_disk.py"),
        r"(\d+) passed",
        "clocks that jump by a day; a disk that is full five times",
    ),
]


def row(tool: Tool, seconds: int) -> tuple[str, bool]:
    """Runs a tool. Returns its row of the table, and whether all was well."""
    begun = time.monotonic()
    done = subprocess.run(
        tool.command(seconds), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    took = time.monotonic() - begun
    found = re.findall(tool.figure, done.stdout)
    is_well = done.returncode == 0 and bool(found)
    if not is_well:
        print(done.stdout[-5000:], file=sys.stderr)
    figures = ", ".join(_with_commas(tool.text.format(each)) for each in dict.fromkeys(found))
    return (
        f"| {tool.name} | {figures if is_well else 'FAILED'} | {took:.0f} | {_commit()} |",
        is_well,
    )


def _with_commas(text: str) -> str:
    return re.sub(r"\b\d{5,}\b", lambda number: f"{int(number[0]):,}", text)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def written(page: str, marker: str, lines: Sequence[str]) -> str:
    """Returns a page with lines between the two comments that a marker names."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{PAGE} has no place for {marker}")
    return "\n".join([before + begin, "", *lines, "", end + after])


def rows_of(page: str, marker: str) -> dict[str, str]:
    """Returns the rows that a table has now, by their first cells."""
    place = page.partition(f"<!-- {marker}: begin -->")[2].partition("<!--")[0]
    _, _, body = place.partition("|---|")
    lines = [line for line in body.splitlines()[1:] if line.startswith("|")]
    return {line.split("|")[1].strip(): line for line in lines}


def main() -> int:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    names = sys.argv[2:]
    rows = rows_of(PAGE.read_text(), "figures")
    all_well = True
    for tool in TOOLS:
        if not names or tool.name in names:
            rows[tool.name], is_well = row(tool, seconds)
            print(rows[tool.name], flush=True)
            all_well &= is_well
    figures = [*_HEAD, *(rows[tool.name] for tool in TOOLS if tool.name in rows)]
    machine = (
        f"Last run: {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}."
    )
    PAGE.write_text(written(PAGE.read_text(), "figures", [machine, "", *figures]))
    if not names or "faults" in names:
        with fork_server():
            PAGE.write_text(written(PAGE.read_text(), "faults", faults.table(forked_python())))
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
