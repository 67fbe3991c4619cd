"""Tests of ``condacc migrate``: options, exit statuses, reports, start."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from condacc.migrate import _command as command
from condacc.migrate import _files
from condacc.migrate._files import FileResult
from tests.processes.launched import wait_until_gone
from tests.support.waiting import PATIENCE_SECS, until

ROOT = Path(__file__).resolve().parents[2]
OLD = "import tensorflow as tf\nprint(tf.contrib.x, tf.compat.v1.ConditionalAccumulator)\n"
NEW = OLD.replace("as tf\n", "as tf\nimport tf_condacc\n").replace("tf.compat.v1.C", "tf_condacc.C")
DIFF = """\
--- train.py
+++ train.py
@@ -1,2 +1,3 @@
 import tensorflow as tf
-print(tf.contrib.x, tf.compat.v1.ConditionalAccumulator)
+import tf_condacc
+print(tf.contrib.x, tf_condacc.ConditionalAccumulator)
"""
REPORT = [
    "train.py:2:7: TC101 tf.contrib.x is used. ",
    "train.py:2:21: tf.compat.v1.ConditionalAccumulator -> tf_condacc.ConditionalAccumulator",
]


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    """Returns a program that can be rewritten, in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(OLD)
    return path


def test_without_options_it_reports_and_changes_nothing(program, capsys):
    assert command.main(["train.py"]) == 0
    output = capsys.readouterr()
    for line, expected in zip(output.out.splitlines(), REPORT, strict=True):
        assert line.startswith(expected)
    assert output.err == "1 file, 1 to be rewritten (1 name), 0 skipped; 1 finding\n"
    assert program.read_text() == OLD


def test_check_fails_until_the_files_are_written(program, capsys):
    assert command.main(["--check", "."]) == 1
    assert program.read_text() == OLD
    assert command.main(["--write", "."]) == 0
    assert "1 rewritten" in capsys.readouterr().err
    assert program.read_text() == NEW
    assert command.main(["--check", "."]) == 0
    assert command.main(["--write", "."]) == 0
    assert program.read_text() == NEW


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no command patch")
@pytest.mark.parametrize("text", [OLD, OLD.removesuffix("\n"), OLD.replace("\n", "\r\n")])
def test_a_diff_can_be_applied(text, program, capsys):
    program.write_bytes(text.encode())
    assert command.main(["--diff", "train.py"]) == 0
    output = capsys.readouterr()
    if text == OLD:
        assert output.out == DIFF
    assert REPORT[0] in output.err
    subprocess.run(["patch", "--binary", "-s"], input=output.out.encode(), check=True)
    assert program.read_bytes() == text.replace(OLD[:-1], NEW[:-1]).encode() or "\r" in text
    assert command.main(["--check", "train.py"]) == 0


def test_a_diff_of_what_is_done_is_empty(program, capsys):
    program.write_text(NEW)
    assert command.main(["--diff", "--check", "train.py"]) == 0
    assert capsys.readouterr().out == ""


def test_the_report_as_json(program, capsys):
    Path("bad.py").write_text("import tensorflow\nprint 1\n")
    assert command.main(["--json", "bad.py", "train.py"]) == 123
    report = json.loads(capsys.readouterr().out)
    place = {"file": "train.py", "cell": None, "line": 2}
    (finding,) = report.pop("findings")
    assert finding.pop("remedy").startswith("`condacc run` does not")
    message = {"code": "TC101", "message": "tf.contrib.x is used"}
    assert finding == {**place, "column": 7, **message}
    assert report.pop("rewritings") == [
        {
            **place,
            "column": 21,
            "old": "tf.compat.v1.ConditionalAccumulator",
            "new": "tf_condacc.ConditionalAccumulator",
        }
    ]
    (skipped,) = report.pop("skipped")
    assert skipped["file"] == "bad.py"
    assert "print" in skipped["error"]
    assert report == {"version": 1, "written": False, "changed": ["train.py"]}


def test_a_remedy_is_written_once_per_file_and_at_each_place_of_the_json(program, capsys):
    program.write_text(
        "import tensorflow as tf\ntf.nn.rnn_cell.LSTMCell(1)\ntf.nn.rnn_cell.GRUCell(2)\n"
    )
    Path("other.py").write_text(program.read_text())
    assert command.main(["."]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["It needs Keras 2" in line for line in lines] == [True, False] * 2
    assert lines[3] == "./train.py:3:1: TC303 tf.nn.rnn_cell.GRUCell is used. See line 2."
    assert command.main(["--json", "."]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert len({one["remedy"] for one in found}) == 1


def test_the_estimator_is_rewritten_on_request(program):
    program.write_text("import tensorflow as tf\ntf.estimator.ModeKeys.TRAIN, tf\n")
    assert command.main(["--check", "train.py"]) == 0
    assert command.main(["--estimator", "--write", "train.py"]) == 0
    assert "tf_condacc.estimator.ModeKeys.TRAIN" in program.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: PATH"),
        (["no.py"], "no such file or folder: no.py"),
        (["--write", "--check", "."], "not allowed with"),
        (["--json", "--diff", "."], "not allowed with"),
        (["--jobs", "0", "."], "must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys, program):
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    assert message in capsys.readouterr().err
    assert program.read_text() == OLD


def test_a_missing_libcst_is_named_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        command.main(["train.py"])
    message = "error: libcst is missing: pip install 'libcst==1.9.0'\n"
    assert capsys.readouterr().err.endswith(message)


def test_ctrl_c_ends_it_with_one_line(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "migrate_files", interrupted)
    monkeypatch.setattr(command, "exit_on_interrupt", lambda: None)  # pytest handles Ctrl-C itself.
    assert command.main(["train.py"]) == 130
    assert capsys.readouterr().err.startswith("Interrupted.")


def die_at_one(file, with_estimator):
    if file == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return FileResult(file)


def die_while_sending_one(pipe, result):
    if result.path == "1":
        os.write(pipe.fileno(), struct.pack("!i", 1000) + b"the first of 1000 bytes")
        os.kill(os.getpid(), signal.SIGKILL)
    pipe.send_bytes(pickle.dumps(result))


@pytest.mark.parametrize("is_sending", [False, True])
def test_the_files_that_a_process_had_left_when_it_died_are_reported(monkeypatch, is_sending):
    if is_sending:
        monkeypatch.setattr(Connection, "send", die_while_sending_one)
        monkeypatch.setattr(_files, "migrate_file", lambda file, with_estimator: FileResult(file))
    else:
        monkeypatch.setattr(_files, "migrate_file", die_at_one)
    files = [str(number) for number in range(40)]
    results = list(_files.migrate_files(files, False, processes=2))
    assert [result.path for result in results] == files
    lost = [result for result in results if result.error]
    assert [result.path for result in lost] == files[1::2]
    assert {result.error for result in lost} == {"the process that was to read it has ended"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("output", "expected"),
    [(Terminal(), "\r1 of 3 files\r2 of 3 files\r3 of 3 files\r\033[K"), (io.StringIO(), "")],
    ids=["terminal", "file"],
)
def test_progress_is_shown_on_terminals(output, expected):
    assert "".join(_files.with_progress("abc", 3, output)) == "abc"
    assert output.getvalue() == expected


@pytest.fixture
def without_tensorflow(tmp_path):
    """Returns a function that runs the command in a process that cannot import TensorFlow."""
    poisoned = tmp_path / ".poisoned"
    poisoned.mkdir()
    (poisoned / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(poisoned), str(ROOT)])}

    def run(*arguments, **options):
        line = [sys.executable, "-m", "condacc", "migrate", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(line, env=environment, text=True, **(pipes | options))

    return run


def test_it_needs_no_tensorflow_and_uses_several_processes(without_tensorflow, program):
    for number in range(40):
        Path(f"train_{number:02}.py").write_text(OLD)
    process = without_tensorflow("--write", "--jobs", "2", ".")
    output, errors = process.communicate(timeout=PATIENCE_SECS)
    assert process.returncode == 0, errors
    assert errors == "41 files, 41 rewritten (41 names), 0 skipped; 41 findings\n"
    assert {path.read_text() for path in Path().glob("train*.py")} == {NEW}
    places = [line.split(":")[0] for line in output.splitlines()]
    assert places == sorted(places)


def test_its_processes_end_when_it_is_killed(without_tensorflow, program):
    for number in range(400):
        Path(f"train_{number:03}.py").write_text(OLD * 20)
    process = without_tensorflow("--jobs", "2", ".")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def two_children():
        assert process.poll() is None
        return pids if len(pids := children.read_text().split()) >= 2 else None

    pids = until(two_children, "two processes have started")
    process.terminate()
    process.communicate(timeout=PATIENCE_SECS)
    for pid in pids:
        wait_until_gone(int(pid))


def test_it_ends_quietly_when_its_reader_has_gone(without_tensorflow):
    reader, writer = os.pipe()
    os.close(reader)
    process = without_tensorflow("train.py", stdout=writer)
    os.close(writer)
    assert process.communicate(timeout=PATIENCE_SECS)[1] == ""
    assert process.returncode == 141
