"""Tests that run in a process of their own, where a crash is the failure of one test.

`isolated` marks such tests. Those of a file whose marks are equal share a process. It is a child of
pytest, forked with TensorFlow imported and not used, and it runs the tests by their ids: fixtures,
parameters, skips and captured output work as in any test. If the process dies, the test that it was
running fails, and another process runs the tests that are left.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processes.forked_python import forked_python
from tests.support.waiting import PATIENCE_SECS

_IN_CHILD = "TF_CONDACC_TEST_ISOLATED"
_PREFIX = "\x1e"  # Begins the lines of the child's output that are for its parent.
_LIMIT = pytest.StashKey[float]()


def isolated(
    variables: Mapping[str, str] | Callable[[Path], Mapping[str, str]] | None = None,
    *,
    alone: bool = False,
    status: int | None = None,
) -> pytest.MarkDecorator:
    """Marks tests that run in a process of their own.

    Args:
        variables: Further environment variables of the process, or a function that is called with
            a temporary folder and returns them.
        alone: Whether a test shares its process with no other one, so that an error at the end of
            the process is that of the test.
        status: The exit status with which the test must end its process; negative for a signal.
    """
    return pytest.mark.isolated(variables=variables, alone=alone, status=status)


def is_child() -> bool:
    """Returns whether this process is one in which isolated tests run."""
    return _IN_CHILD in os.environ


def plugin(config: pytest.Config) -> Any:
    """Returns the plugin of pytest for this process."""
    return Reports(config) if is_child() else Children()


class Children:
    """A plugin of pytest that runs isolated tests, and takes over the reports of their children."""

    def __init__(self) -> None:
        self._children: dict[Any, _Child] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Moves the time limits of isolated tests to their children."""
        for item in items:
            if item.get_closest_marker("isolated"):
                limit = item.get_closest_marker("timeout")
                item.stash[_LIMIT] = limit.args[0] if limit else 0
                item.add_marker(pytest.mark.timeout(0), append=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        key = _key_of(item)
        if key is None:
            return None
        if key not in self._children:
            together = [each for each in item.session.items if _key_of(each) == key]
            self._children[key] = _Child(together)
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._children[key].reports(item):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # Fixtures of earlier tests in this process end where pytest would end them.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        for child in self._children.values():
            child.close()


class Reports:
    """A plugin of the child, which sends the reports of its tests to its parent."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._send(begin=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._send(report=data)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._send(end=nodeid)

    def _send(self, **entry: Any) -> None:
        sys.stdout.write(f"\n{_PREFIX}{json.dumps(entry)}\n")
        sys.stdout.flush()


def _key_of(item: pytest.Item) -> Any:
    marker = item.get_closest_marker("isolated")
    if marker is None:
        return None
    variables, alone = marker.kwargs["variables"], marker.kwargs["alone"]
    same = variables if callable(variables) else tuple(sorted((variables or {}).items()))
    return item.path, same, item.nodeid if alone else None


class _Child:
    """The process of isolated tests, which is replaced whenever it dies."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self._items = {item.nodeid: item for item in items}
        self._left = [item.nodeid for item in items]
        self._found: dict[str, list[pytest.TestReport]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="isolated")
        self._log = Path(self._folder.name) / "log"
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._begun: str | None = None

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Returns the reports of a test, when it has ended."""
        while item.nodeid in self._left:
            self._hear(item.stash[_LIMIT] + PATIENCE_SECS)  # The child itself has the limit.
        return self._found[item.nodeid]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _hear(self, limit_secs: float) -> None:
        """Waits for the next line of the process or for its end."""
        if self._process is None:
            self._start()
        assert self._process is not None
        try:
            line = self._lines.get(timeout=limit_secs)
        except queue.Empty:
            self._process.kill()
            return
        if line is None:
            status = self._process.wait()
            self._process = None
            return self._end(status)
        entry = json.loads(line)
        if "begin" in entry:
            self._begun = entry["begin"]
            self._found[entry["begin"]] = []
        elif "report" in entry:
            config = next(iter(self._items.values())).config
            report = config.hook.pytest_report_from_serializable(
                config=config, data=entry["report"]
            )
            report.location = tuple(report.location)
            if isinstance(report.longrepr, list):  # Skips are tuples, which JSON lacks.
                report.longrepr = tuple(report.longrepr)
            self._found[report.nodeid].append(report)
        else:
            self._begun = None
            if len(self._left) > 1:
                self._finish(entry["end"])

    def _finish(self, nodeid: str, *more: pytest.TestReport) -> None:
        item = self._items[nodeid]
        if item.get_closest_marker("isolated").kwargs["status"] is not None and not more:
            self._found[nodeid] = [_failure(item, "The test did not end its process.")]
        self._left.remove(nodeid)
        self._found[nodeid] += more

    def _end(self, status: int) -> None:
        """Attributes the end of the process to the test that was running, or to the last one."""
        about = f"The process ended with status {status}.\n{self._log_tail()}"
        if self._begun is not None:
            nodeid, self._begun = self._begun, None
            item = self._items[nodeid]
            expected = item.get_closest_marker("isolated").kwargs["status"]
            as_expected = status == expected
            self._found[nodeid] = []
            self._finish(
                nodeid, _report(item, "passed", None) if as_expected else _failure(item, about)
            )
        elif len(self._left) == 1 and self._left[0] in self._found:
            nodeid = self._left[0]
            clean = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
            more = () if clean else (_report(self._items[nodeid], "failed", about, "teardown"),)
            self._finish(nodeid, *more)
        else:
            for nodeid in list(self._left):
                self._found[nodeid] = []
                self._finish(nodeid, _failure(self._items[nodeid], f"It was not run. {about}"))

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-20_000:]

    def _start(self) -> None:
        item = self._items[self._left[0]]
        config = item.config
        given = item.get_closest_marker("isolated").kwargs["variables"] or {}
        folder = Path(self._folder.name)
        variables = dict(given(folder) if callable(given) else given)
        # pytest captures only what Python prints. The output of native code reaches the log, even
        # if the process crashes.
        options = ["-q", "--capture=tee-sys", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
        options += ["--basetemp", str(folder / "temporary")]
        if config.getoption("--device"):
            options += ["--device", config.getoption("--device")]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*forked_python(variables), "-m", "pytest", *options, *self._left],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="replace",
                cwd=config.rootpath,
                env={**os.environ, **variables, _IN_CHILD: "1", "PYTEST_ADDOPTS": ""},
            )
        threading.Thread(target=self._read, args=[self._process], daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        others: list[str] = []
        with self._log.open("a") as log:  # Its folder may be gone at the end.
            for line in process.stdout or ():
                if line.startswith(_PREFIX):
                    self._lines.put(line.removeprefix(_PREFIX))
                elif line.strip():
                    others.append(line)
            log.writelines(others)
        self._lines.put(None)


def _report(item: pytest.Item, outcome: Any, about: Any, when: Any = "call") -> pytest.TestReport:
    keywords = dict.fromkeys(item.keywords, 1)
    return pytest.TestReport(item.nodeid, item.location, keywords, outcome, about, when)


def _failure(item: pytest.Item, about: str) -> pytest.TestReport:
    return _report(item, "failed", about)
