"""Runs of pytest in which a process ends during a test, or that are cut off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

_CONFTEST = """
import os
import pytest
from tests.support.scheduling import Completeness

def pytest_configure(config):
    config.pluginmanager.register(Completeness(config))
"""
_CRASHING = """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
def test_some(number):
    if number == {number}:
        os._exit(3)
"""


def _pytest(folder: Path, *options: str) -> tuple[int, str]:
    search = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    (folder / "conftest.py").write_text(_CONFTEST)
    ended = run_program(
        [*forked_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search},
    )
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_process_that_ends_is_replaced_and_all_other_tests_run(tmp_path, processes):
    for name, number in (("a", -1), ("b", 1), ("c", -1), ("d", 3)):
        (tmp_path / f"test_{name}.py").write_text(_CRASHING.format(number=number))
    options = ("-n", processes, "--dist", "loadfile", "--no-loadscope-reorder")
    status, output = _pytest(tmp_path, *options, "--max-worker-restart=100")
    assert status == 1
    assert "2 failed, 14 passed" in output.splitlines()[-1]
    assert "test_b.py::test_some[1]" in output and "test_d.py::test_some[3]" in output


def test_a_run_that_was_cut_off_says_so_in_its_last_line(tmp_path):
    (tmp_path / "test_a.py").write_text(_CRASHING.format(number=1).replace("os._exit(3)", "1 / 0"))
    status, output = _pytest(tmp_path, "-x")
    assert status == 1
    expected = "This run was cut off: 2 of 4 tests were not run."
    assert output.splitlines()[-1] == expected
