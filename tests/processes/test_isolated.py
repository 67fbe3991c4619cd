"""Tests of tests that run in a process of their own: what they report, and what a crash does."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

TESTS = Path(__file__).parents[1]
PROGRAM = """
import atexit, os, signal
import pytest
from tests.processes.isolated import isolated
from tests.support import waiting

kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
pids = set()

def test_outside(): print(os.getpid())

@isolated()
class TestTogether:
    def test_first(self): pids.add(os.getpid())
    @pytest.mark.parametrize("number", [1, 2])
    def test_of_the_same_process(self, number, tmp_path): assert len(pids | {os.getpid()}) == 1
    def test_wrong(self): assert 1 == 2
    def test_skipped(self): pytest.skip("not here")
    @pytest.mark.xfail(strict=True)
    def test_known(self): assert False
    def test_that_dies(self): os.write(2, b"last words"); kill()
    def test_afterwards(self): assert not pids and "OWN" not in os.environ
    @isolated(status=-signal.SIGKILL)
    def test_that_must_die(self): kill()
    @isolated(status=-signal.SIGKILL)
    def test_that_must_die_and_lives(self): pass
    @pytest.mark.timeout(1)
    def test_that_hangs(self): signal.pause()
    def test_that_waits_in_vain(self, seed, monkeypatch):
        monkeypatch.setattr(waiting, "PATIENCE_SECS", 0.1)
        waiting.until(lambda: False, "it ends")

@isolated({"OWN": "1"})
def test_of_a_variable(): assert os.environ["OWN"] == "1"

@isolated(alone=True)
def test_whose_process_ends_badly(): atexit.register(os._exit, 7)

@isolated(alone=True)
def test_whose_process_ends_well(): atexit.register(print, "end")
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Returns what pytest shows of the tests of PROGRAM."""
    folder = tmp_path_factory.mktemp("tests")
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (folder / "test_file.py").write_text(PROGRAM)
    (folder / "pytest.ini").touch()
    options = ["-v", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return run_program(
        [*forked_python(), "-m", "pytest", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
    ).stdout


@pytest.mark.parametrize(
    "test, outcome",
    [
        ("test_outside", "PASSED"),
        ("test_first", "PASSED"),
        ("test_of_the_same_process[2]", "PASSED"),
        ("test_wrong", "FAILED"),
        ("test_skipped", "SKIPPED"),
        ("test_known", "XFAIL"),
        ("test_that_dies", "FAILED"),
        ("test_afterwards", "PASSED"),
        ("test_that_must_die", "PASSED"),
        ("test_that_must_die_and_lives", "FAILED"),
        ("test_that_hangs", "FAILED"),
        ("test_that_waits_in_vain", "FAILED"),
        ("test_of_a_variable", "PASSED"),
        ("test_whose_process_ends_badly", "ERROR"),
        ("test_whose_process_ends_well", "PASSED"),
    ],
)
def test_each_test_is_reported_by_itself(output, test, outcome):
    assert re.search(rf"::{re.escape(test)} {outcome} ", output), output


def test_a_failure_shows_what_the_process_has_written(output):
    assert "The process ended with status -9.\nlast words" in output
    assert "The process ended with status 7." in output
    assert "assert 1 == 2" in output
    assert re.search(r"waited 0\.\d s until: it ends\n", output)
    alone = r"alone: TF_CONDACC_TEST_SEED=1 \S+ -m pytest -m '' \S+::test_that_waits_in_vain\n"
    assert re.search(alone, output)
