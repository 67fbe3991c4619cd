"""A pytest plugin with the fixture ``assert_parity``.

A ``conftest.py`` in the root folder of the tests switches it on::

    pytest_plugins = ["tf_condacc.parity.pytest_plugin"]

It splits the CPU into logical devices before the tests are collected. The ini option
``parity_logical_cpus`` is their number, 2 by default.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tf_condacc.parity import Report, assert_parity, use_logical_cpus


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the ini option."""
    parser.addini("parity_logical_cpus", "number of logical CPUs of TensorFlow", default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Splits the CPU into logical devices."""
    try:
        use_logical_cpus(int(config.getini("parity_logical_cpus")))
    except (RuntimeError, ValueError) as error:
        raise pytest.UsageError(f"tf_condacc.parity.pytest_plugin: {error}") from error


@pytest.fixture(name="assert_parity")
def assert_parity_with_picture(tmp_path: Path) -> Callable[..., Report]:
    """Returns `tf_condacc.parity.assert_parity`, which draws a picture of a failure.

    The picture is in the temporary folder of the test, and the error gives its path.
    """
    return functools.partial(assert_parity, picture=tmp_path / "parity.png")
