"""Trials of the pytest plugin, with the code that the page about parity shows."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.trial_runs import Trials
from tf_condacc import parity

TRIALS = Trials()
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"
# Towers and synchronous replicas get twice the learning rate.
_FAULT = (
    "build=",
    "v1_optimizer=lambda: tf.compat.v1.train.GradientDescentOptimizer(0.2),\n        build=",
)


class Reports:
    """A plugin that keeps the reports of the tests that run, by the names of their files."""

    def __init__(self) -> None:
        self.of_files: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.of_files[Path(report.nodeid.split("::")[0]).name] = report


def reports_of(folder: Path, **files: str) -> dict[str, pytest.TestReport]:
    """Runs tests in this process; returns the reports of their files."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    ini = folder / "pytest.ini"
    ini.write_text("[pytest]\nparity_logical_cpus = 3\n", "utf-8")
    reports = Reports()
    options = ["-q", "-c", str(ini), f"--basetemp={folder / 'temporary'}", "-p", "no:cacheprovider"]
    pytest.main([*options, str(folder)], [reports])
    return reports.of_files


@TRIALS.add
def the_fixture_passes_and_fails_with_a_picture(_: Any) -> None:
    parity.use_logical_cpus(4)
    conftest, test = re.findall(r"```py\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    assert _FAULT[0] in test
    with tempfile.TemporaryDirectory() as folder:
        files = {"conftest": conftest, "test_page": test, "test_fault": test.replace(*_FAULT)}
        reports = reports_of(Path(folder), **files)
        assert reports["test_page.py"].passed, reports["test_page.py"].longreprtext
        assert reports["test_fault.py"].failed
        message = reports["test_fault.py"].longreprtext
        assert "ParityError" in message
        assert "The update of 2 towers is 2.00 times that of one big batch." in message
        (picture,) = Path(folder).rglob("parity.png")
        assert f"Picture: {picture}" in message
