"""No test looks at a clock or at the memory of the process, because such a verdict depends on load.

`tests/support/waiting.py` is where tests wait.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Files that measure something, or that a person runs by hand and reads.
_WITH_A_CLOCK = (
    "support/waiting.py",
    "aarch64/",
    "benchmarks/",
    "cc/",
    "conftest.py",  # It sets the limit of each test.
    "gpu/",
    "processes/isolated.py",
    "processes/test_isolated.py",
    "reliability/",
    "soak/soak.py",
)
_CLOCKS = {
    f"time.{name}{unit}"
    for name in ("sleep", "monotonic", "perf_counter", "process_time", "thread_time", "time")
    for unit in ("", "_ns")
}
_MEMORY = re.compile(r"\b(?:VmRSS|VmHWM|ru_maxrss)\b")
_WAITS = ("join", "wait", "result", "communicate", "run", "check_output", "check_call", "call")
# Tests of the real timers and threads, clocks that take the place of one, and what prints seconds.
_WITH_A_CLOCK_IN_CPP = ("base/", "explorer/", "fuzz/", "gpu/", "mutants/", "scale/", "stand_ins/")
_CLOCKS_IN_CPP = re.compile(r"sleep_for|sleep_until|_clock::now|clock_gettime|getrusage")


def _looks(text: str) -> Iterator[int]:
    """Yields the lines that look at a clock or at memory, or wait for a number of seconds.

    Programs in strings, which tests start, may sleep.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if _MEMORY.search(line):
            yield number
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func) in (*_CLOCKS, "pytest.mark.timeout"):
            yield node.lineno
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        limits += node.args[:1] if name in ("join", "wait", "result") else []
        for limit in limits if name in _WAITS else []:
            if isinstance(limit, ast.Constant) and isinstance(limit.value, int | float):
                yield node.lineno


def test_only_one_file_of_the_tests_has_a_clock():
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if name.startswith(_WITH_A_CLOCK) or path == Path(__file__):
            continue
        found += [f"{name}:{line}" for line in _looks(path.read_text())]
    assert found == []


def test_no_test_of_the_core_looks_at_a_clock():
    found = []
    for path in sorted((TESTS / "cc").rglob("*.[ch]*")):
        name = path.relative_to(TESTS / "cc").as_posix()
        if not name.startswith(_WITH_A_CLOCK_IN_CPP):
            lines = enumerate(path.read_text().splitlines(), 1)
            found += [f"{name}:{number}" for number, line in lines if _CLOCKS_IN_CPP.search(line)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "thread.join(30)",
        "event.wait(timeout=2.5)",
        "subprocess.run(a, timeout=60)",
        "assert time.monotonic() < end",
        "read('VmRSS')",
    ],
)
def test_looks_and_limits_are_found(code):
    assert list(_looks(code)) == [1]
