"""A pytest plugin with the fixture ``assert_parity``.

A ``conftest.py`` in the root folder of the tests switches it on::

    pytest_plugins = ["tf_condacc.parity.pytest_plugin"]

It splits the CPU into logical devices before the tests are collected. The ini option
``parity_logical_cpus`` is their number, 2 by default.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tf_condacc.parity import assert_parity, use_logical_cpus
from tf_condacc.parity._report import Report


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
def assert_parity_of_the_package() -> Callable[..., Report]:
    """Returns `tf_condacc.parity.assert_parity`."""
    return assert_parity
