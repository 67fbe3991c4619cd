"""Tests of TensorFlow's C++ log: the programs of the package hide it, and other programs see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# All programs start in the same way, so `make test` runs one of them.
_PROGRAMS = [
    "demo",
    pytest.param("examples.word_vectors", marks=pytest.mark.long),
    pytest.param("examples.async_digits", marks=pytest.mark.long),
    pytest.param("examples.towers", marks=pytest.mark.long),
]
# Python imports a module of this name before anything else. This one runs code when the import of
# TensorFlow begins.
_SITE = """
import sys

class AtTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            sys.meta_path.remove(self)
            exec({code!r})

sys.meta_path.insert(0, AtTensorFlow())
"""


def _run(folder: Path, code: str, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Returns the exit status of Python and the lines on its standard error."""
    (folder / "sitecustomize.py").write_text(_SITE.format(code=code))
    inherited = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    path = os.pathsep.join([str(folder), os.getcwd()])
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=inherited | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    return ended.returncode, ended.stderr.splitlines()


_LOG = "import os; os.write(2, b'I0000 00:00:1.5 7 port.cc:1] log\\nspoken\\n')"


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_program_writes_no_line_of_the_log_and_every_other_one(program: str, tmp_path: Path):
    assert _run(tmp_path, _LOG, "-m", f"tf_condacc.{program}", "--help") == (0, ["spoken"])


def test_the_training_of_the_demo_writes_no_line_of_the_log(tmp_path: Path):
    options = ["--steps", "5", "--output", str(tmp_path / "demo.png")]
    assert _run(tmp_path, "", "-m", "tf_condacc.demo", *options) == (0, [])


def test_a_program_shows_the_log_to_who_asks_for_it(tmp_path: Path):
    command = ["-m", "tf_condacc.demo", "--help"]
    status, lines = _run(tmp_path, _LOG, *command, TF_CPP_MIN_LOG_LEVEL="0")
    assert status == 0
    assert any("port.cc:1] log" in line for line in lines)


@pytest.mark.parametrize(
    "command",
    [["-c", "import tf_condacc"], pytest.param(["-m", "theirs"], marks=pytest.mark.long)],
    ids=" ".join,
)
def test_other_programs_keep_their_log(command: list[str], tmp_path: Path):
    (tmp_path / "theirs.py").write_text("import tf_condacc")
    status, lines = _run(tmp_path, _LOG, *command)
    assert status == 0
    assert any("port.cc:1] log" in line for line in lines)


def test_the_last_words_of_a_program_that_aborts_are_shown(tmp_path: Path):
    abort = "import os; os.write(2, b'F0000 00:00:1.5 7 cpu.cc:1] too old\\n'); os.abort()"
    status, lines = _run(tmp_path, abort, "-m", "tf_condacc.demo")
    assert status < 0
    assert lines == ["F0000 00:00:1.5 7 cpu.cc:1] too old"]


def test_an_import_that_fails_says_so(tmp_path: Path):
    status, lines = _run(tmp_path, "raise ImportError('no such luck')", "-m", "tf_condacc.demo")
    assert status == 1
    assert lines[-1].endswith("ImportError: no such luck")


def test_a_program_without_a_standard_error_runs(tmp_path: Path):
    shell = f'exec "{sys.executable}" -m tf_condacc.demo --help 2>&-'
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    ended = subprocess.run(
        ["bash", "-c", shell], env=environment, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0
    assert ended.stdout.startswith("usage:")
