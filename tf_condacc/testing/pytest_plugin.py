"""A pytest plugin with the fixture ``parity``.

A ``conftest.py`` in the root folder of the tests switches it on::

    pytest_plugins = ["tf_condacc.testing.pytest_plugin"]

It splits the CPU into logical devices before the tests are collected. The ini option
``parity_logical_cpus`` is their number, 2 by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tf_condacc import testing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the ini option."""
    parser.addini("parity_logical_cpus", "number of logical CPUs of TensorFlow", default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Splits the CPU into logical devices."""
    testing.use_logical_cpus(int(config.getini("parity_logical_cpus")))


@pytest.fixture
def parity(tmp_path: Path) -> Callable[..., testing.Report]:
    """Returns `tf_condacc.testing.assert_parity`, which draws a picture of a failure.

    The picture is in the temporary folder of the test, and the error tells its path. Without
    matplotlib there is none.
    """

    def check(
        training: testing.Training,
        ways: Sequence[testing.Way] | None = None,
        *,
        num_replicas: int = 2,
        tolerance: testing.Tolerance | float | None = None,
    ) -> testing.Report:
        report = testing.compare(training, ways, num_replicas=num_replicas, tolerance=tolerance)
        if report.differences:
            try:
                picture = report.save_picture(tmp_path / "parity.png")
            except ImportError:
                picture = None
            raise testing.ParityError(report, picture)
        return report

    return check
