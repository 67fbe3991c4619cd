"""How pytest-xdist hands out the files of tests, and what is said of tests that were not run."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class FileScheduling(LoadFileScheduling):
    """Hands out whole files, in their order, and goes on if a process ends during a test.

    The class of pytest-xdist would run the test again that ended its process, and would wait for
    ever for files that were done already.
    """

    def remove_node(self, node: Any) -> str | None:
        """Forgets a process; returns the test that it was running, or None if it had run all."""
        files = self.assigned_work.pop(node)
        left = [
            (file, test) for file in files for test, is_run in files[file].items() if not is_run
        ]
        if not left:
            return None
        file, crashed = left[0]
        files[file][crashed] = True
        for file in reversed(files):
            if not all(files[file].values()):
                self.workqueue[file] = files[file]
                self.workqueue.move_to_end(file, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Gives a process more files if it has few tests left.

        A process of pytest-xdist holds its last test back until it gets more or is shut down.
        """
        if node not in self.registered_collections:
            return  # It still collects; `schedule` is called when it has.
        while (
            self.workqueue
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) <= 2
        ):
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()


class Completeness:
    """A plugin that says in the last line whether a run was cut off."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reported: set[str] = set()
        self._num_collected = 0

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> FileScheduling | None:
        return FileScheduling(config, log) if config.option.dist == "loadfile" else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._num_collected = len(session.items)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._num_collected = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        missing = self._num_collected - len(self._reported)
        if missing > 0 and not self._config.option.collectonly:
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            reporter.write_line(
                f"This run was cut off: {missing} of {self._num_collected} tests were not run."
            )
