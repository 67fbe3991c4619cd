"""Runs the tests that need logical CPUs in a pytest process of their own."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.forked_python import forked_python
from tf_condacc import parity

_ROOT = Path(__file__).resolve().parents[2]
_NUM_LOGICAL_CPUS = 4
_IS_CHILD = "TF_CONDACC_TEST_LOGICAL_CPUS"
_LIMIT_SECS = 300


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "logical_cpus: needs several logical CPUs, so it runs in another process"
    )


def _runs_in_child(item: pytest.Item) -> bool:
    return item.get_closest_marker("logical_cpus") is not None and _IS_CHILD not in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raises the time limit, because the first of these tests waits for all of them."""
    for item in items:
        if _runs_in_child(item):
            item.add_marker(pytest.mark.timeout(2 * _LIMIT_SECS))


@pytest.fixture(scope="session")
def outcomes_of_child(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Returns the failures of the tests that ran in the child, by their names; "" if one passed."""
    items = [item for item in request.session.items if _runs_in_child(item)]
    path = tmp_path_factory.mktemp("child") / "outcomes.xml"
    command = [*forked_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    child = subprocess.run(
        [*command, f"--junitxml={path}", *(item.nodeid for item in items)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=_ROOT,
        env=os.environ | {_IS_CHILD: str(_NUM_LOGICAL_CPUS)},
        timeout=_LIMIT_SECS,
    )
    if not path.exists():
        pytest.fail(f"exit status {child.returncode}\n{child.stdout[-4000:]}")
    return {
        case.attrib["name"]: "".join(each.text or "" for each in case)
        for case in ElementTree.parse(path).iter("testcase")
    }


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Reports what became of a test in the child, in place of running it here."""
    if not _runs_in_child(pyfuncitem):
        return None
    outcomes = pyfuncitem._request.getfixturevalue("outcomes_of_child")
    failure = outcomes.get(pyfuncitem.name, "the process has ended before this test")
    if failure:
        pytest.fail(failure, pytrace=False)
    return True


@pytest.fixture(autouse=True)
def logical_cpus(request: pytest.FixtureRequest) -> None:
    """Configures the logical CPUs in the child."""
    if _IS_CHILD in os.environ:
        parity.use_logical_cpus(int(os.environ[_IS_CHILD]))
