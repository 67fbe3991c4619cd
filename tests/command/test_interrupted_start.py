"""Tests of Ctrl-C while programs import their packages, which takes seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = [
    "tf_condacc.demo",
    "tf_condacc.examples.word_vectors",
    "tf_condacc.examples.async_digits",
    "tf_condacc.examples.towers",
]
LONG = pytest.mark.long  # All programs start in the same way, so `make test` runs one of them.
# Python imports a module of this name before anything else.
SITE = """
import os, signal, sys

class PressCtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["PRESS_CTRL_C_AT"]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, PressCtrlC())
"""
# These are the beginning of TensorFlow, a module in the middle of it, and this package.
EARLY = ["tensorflow", "tensorflow.python.framework.ops", "tf_condacc._ops.library"]
INTERRUPTED = ["Interrupted: all workers have stopped."]


@pytest.fixture
def interrupted(tmp_path: Path):
    """Runs Python, and presses Ctrl-C at the beginning of the import of a module."""
    (tmp_path / "sitecustomize.py").write_text(SITE)

    def run(at: str, *arguments: str) -> subprocess.CompletedProcess:
        root = os.getcwd()
        search = os.pathsep.join([str(tmp_path), root])
        environment = {**os.environ, "PRESS_CTRL_C_AT": at, "PYTHONPATH": search}
        return subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )

    return run


def messages(ended: subprocess.CompletedProcess) -> list[str]:
    """Returns the lines that a program has written to its standard error."""
    return ended.stderr.splitlines()


@pytest.mark.parametrize(
    ("program", "at"),
    [*((program, EARLY[0]) for program in PROGRAMS), *((PROGRAMS[0], at) for at in EARLY[1:])],
)
def test_a_program_that_is_starting_ends_without_a_word(interrupted, program, at):
    ended = interrupted(at, "-m", program)
    assert (ended.returncode, ended.stdout, messages(ended)) == (130, "", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-mtf_condacc.demo"],
        ["-um", "tf_condacc.demo"],
        ["-X", "utf8", "-m", "tf_condacc.demo", "--steps", "3"],
        ["-m", "tf_condacc.demo.__main__"],
    ],
    ids=" ".join,
)
def test_however_python_is_told_which_program(interrupted, arguments):
    ended = interrupted("tensorflow", *arguments)
    assert (ended.returncode, messages(ended)) == (130, [])


@pytest.mark.parametrize(
    ("program", "at"),
    [
        ("tf_condacc.demo", "matplotlib.figure"),
        pytest.param("tf_condacc.examples.word_vectors", "tqdm", marks=LONG),
        pytest.param("tf_condacc.examples.async_digits", "matplotlib", marks=LONG),
        pytest.param("tf_condacc.examples.towers", "tqdm", marks=LONG),
    ],
)
def test_a_program_that_imports_what_else_it_needs_ends_without_a_traceback(
    interrupted, program, at, tmp_path
):
    ended = interrupted(at, "-m", program, "--output", str(tmp_path / "picture.png"))
    assert (ended.returncode, messages(ended)) == (130, INTERRUPTED)


@pytest.mark.parametrize(
    "arguments",
    [["-c", "import tf_condacc"], ["-m", "their_program"], ["-m", "tf_condacc_of_theirs"]],
    ids=" ".join,
)
def test_programs_that_import_the_package_get_the_exception(interrupted, arguments, tmp_path):
    for name in ("their_program", "tf_condacc_of_theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import tf_condacc")
        (tmp_path / name / "__main__.py").write_text("")
    ended = interrupted("tensorflow", *arguments)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")


def test_programs_that_handle_ctrl_c_themselves_keep_their_handler(interrupted, tmp_path):
    own = "import signal; signal.signal(signal.SIGINT, lambda *_: print('handled'))"
    (tmp_path / "sitecustomize.py").write_text(f"{SITE}\n{own}")
    ended = interrupted("tensorflow", "-m", "tf_condacc.demo", "--help")
    assert ended.returncode == 0
    assert ended.stdout.startswith("handled\nusage:")


def test_ctrl_c_raises_again_when_a_program_has_started(interrupted):
    code = (
        "import sys; sys.argv = ['-m']; sys.orig_argv = ['python', '-m', 'tf_condacc.demo']\n"
        "import signal, tf_condacc\n"
        "from tf_condacc.examples.common import command_line\n"
        "press = lambda settings: signal.raise_signal(signal.SIGINT)\n"
        "assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler\n"
        "status = command_line.run(press, command_line.Settings, 'it', '', [])\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "sys.exit(status)"
    )
    ended = interrupted("", "-c", code)
    assert (ended.returncode, messages(ended)) == (130, INTERRUPTED)
