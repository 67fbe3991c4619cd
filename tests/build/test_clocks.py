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
    "benchmarks/",
    "cc/",
    "gpu/",
    "reliability/",
    "soak/soak.py",
)
_CLOCKS = re.compile(
    r"\bsleep\(|\b(?:monotonic|perf_counter|process_time|thread_time)(?:_ns)?\(|time\.time\("
    r"|\b(?:VmRSS|VmHWM|ru_maxrss)\b|mark\.timeout"
)
_WAITS = ("join", "wait", "result", "communicate", "run", "check_output", "check_call", "call")
# Only tests of the real timers and threads, and the explorer's own clock, look at one.
_WITH_A_CLOCK_IN_CPP = ("base/", "explorer/", "fuzz/", "gpu/", "mutants/")
_CLOCKS_IN_CPP = re.compile(r"sleep_for|sleep_until|_clock::now|clock_gettime|getrusage")


def _limits(tree: ast.AST) -> Iterator[int]:
    """Yields the lines of waits whose limit is a number of seconds."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
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
        text = path.read_text()
        lines = [number for number, line in enumerate(text.splitlines(), 1) if _CLOCKS.search(line)]
        found += [f"{name}:{line}" for line in [*lines, *_limits(ast.parse(text))]]
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
    "code", ["thread.join(30)", "event.wait(timeout=2.5)", "subprocess.run(a, timeout=60)"]
)
def test_a_limit_in_seconds_is_found(code):
    assert list(_limits(ast.parse(code))) == [1]
