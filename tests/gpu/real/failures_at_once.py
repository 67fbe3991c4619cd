"""Prints each failure when it happens: a plugin of pytest. A time limit would lose them otherwise.

With --no-summary, pytest does not print them again at the end.
"""

from __future__ import annotations

import pytest


class _FailurePrinter:
    def __init__(self, plugins: pytest.PytestPluginManager) -> None:
        self._plugins = plugins

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._plugins.get_plugin("terminalreporter")  # The workers of xdist have none.
        if report.failed and reporter:
            reporter.write_line(f"\n=== {report.nodeid} ({report.when})\n{report.longreprtext}")
            for title, text in report.sections:
                reporter.write_line(f"--- {title}\n{text}")
            reporter.flush()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_FailurePrinter(config.pluginmanager))
