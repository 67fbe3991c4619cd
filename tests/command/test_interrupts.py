"""Ctrl-C ends each subcommand of ``condacc``, also while it is imported."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.command.processes import ROOT, Run, runner
from tests.processes.terminal import press_ctrl_c

# The beginning of TensorFlow, a module in the middle of it, and the native ops.
_OF_TENSORFLOW = ("tensorflow", "tensorflow.python.framework.ops", "tf_condacc._ops.native")
_PROGRAM = """
import signal
import tensorflow as tf
assert tf.__name__ == "tensorflow.compat.v1"
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("caught")
def stop():
    signal.raise_signal(signal.SIGINT)
stop()
"""


def _interrupted(folder: Path, at: str, first: str = "") -> Run:
    """Returns a function that runs the command, with Ctrl-C at the import of a module."""
    press = "sys.meta_path.remove(self); signal.raise_signal(signal.SIGINT)"
    return runner(folder, f"name == {at!r}", press, first)


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("run", _OF_TENSORFLOW[0]),
        *(pytest.param("run", at, marks=pytest.mark.programs) for at in _OF_TENSORFLOW[1:]),
        ("run", "condacc.run"),
        ("launch", "condacc.launch._launcher"),
        ("migrate", "condacc.migrate._files"),
        ("info", "importlib.metadata"),
    ],
)
def test_a_command_that_is_starting_ends_without_a_word(command: str, at: str, tmp_path: Path):
    ended = _interrupted(tmp_path, at)(command, __file__)
    # TensorFlow logs lines of its own while its libraries load.
    errors = "" if at.startswith(("tensorflow.", "tf_condacc.")) else ended.stderr
    assert (ended.returncode, ended.stdout, errors) == (130, "", "")
    assert "Traceback" not in ended.stderr


def test_the_rewriting_ends_with_a_line(tmp_path: Path):
    (tmp_path / "train.py").write_text("import tensorflow as tf\ntf.contrib\n")
    ended = _interrupted(tmp_path, "libcst.metadata")("migrate", tmp_path / "train.py")
    assert ended.returncode == 130
    assert ended.stderr == "Interrupted. Each file is either unchanged or rewritten.\n"


def test_the_rewriting_in_several_processes_ends_with_a_line(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = "import tensorflow as tf\n" + "tf.contrib.x(tf.layers)\n" * 100
    for number in range(400):
        (tmp_path / f"{number}.py").write_text(text)
    command = ["-m", "condacc", "migrate", "--jobs", "2", str(tmp_path)]
    ended = press_ctrl_c(command, when=r"\d+ of 400 files")
    assert ended.status == 130
    assert "Traceback" not in ended.output
    assert ended.output.splitlines()[-1].endswith("is either unchanged or rewritten.")


def test_a_program_for_tensorflow_1_gets_the_exception(tmp_path: Path):
    (tmp_path / "program.py").write_text(_PROGRAM)
    ended = runner(tmp_path, "False", "pass")("run", "--quiet", tmp_path / "program.py")
    assert ended.returncode == -signal.SIGINT
    assert ended.stdout == "caught\n"
    traceback = ended.stderr[ended.stderr.index("Traceback") :].splitlines()
    assert [line.split(", ", 1)[1] for line in traceback if line.startswith("  File ")] == [
        "line 11, in <module>",
        "line 10, in stop",
    ]
    assert traceback[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("handler", "printed"),
    [("signal.SIG_IGN", ""), ("lambda *_: print('handled')", "handled\n")],
)
def test_ctrl_c_that_is_ignored_or_handled_already_stays_so(handler, printed, tmp_path: Path):
    first = f"signal.signal(signal.SIGINT, {handler})"
    ended = _interrupted(tmp_path, "condacc.run", first)("run", "--help")
    assert ended.returncode == 0
    assert ended.stdout.startswith(f"{printed}usage: condacc run")
