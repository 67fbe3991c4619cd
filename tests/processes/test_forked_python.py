"""Tests of the processes that the tests start with TensorFlow imported: they are like Python's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.forked_python import forked_python
from tests.processes.launched import wait_until_gone
from tests.support.waiting import run_program

REPORT = """
import json, os, sys
print(json.dumps({
    "imported": "tensorflow" in imported,
    "name": __name__,
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "search": sys.path[:2],
    "variable": os.environ.get("OWN_VARIABLE"),
    "input": sys.stdin.read(),
    "main": sys.modules["__main__"].__dict__ is globals(),
}))
"""
FORKED = "import sys; imported = set(sys.modules)\n" + REPORT


def run(*arguments: str, python: list[str] | None = None, **options) -> subprocess.CompletedProcess:
    command = [*(forked_python() if python is None else python), *arguments]
    return run_program(command, **options)


@pytest.mark.parametrize("form", ["-c", "-m", "file"])
def test_a_program_is_run_as_python_runs_it(form: str, tmp_path: Path):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "own.py").write_text(FORKED)
    start = {"-c": ["-c", FORKED], "-m": ["-m", "own"], "file": [str(folder / "own.py")]}[form]
    options = {
        "cwd": folder if form == "-m" else tmp_path,
        "env": os.environ | {"OWN_VARIABLE": "1", "PYTHONPATH": "/nowhere"},
        "input": "some\nlines",
    }
    forked = json.loads(run(*start, "--one", "2", **options).stdout)
    real = json.loads(run(*start, "--one", "2", python=[sys.executable], **options).stdout)
    assert (forked.pop("imported"), real.pop("imported")) == (True, False)
    assert forked == real
    assert forked["input"] == "some\nlines"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise ValueError('wrong')", 1),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_a_program_ends_as_it_would(code: str, status: int):
    ended = run("-c", code)
    assert ended.returncode == status
    assert ("ValueError: wrong" in ended.stderr) == ("ValueError" in code)


def test_what_runs_at_exit_runs():
    code = "import atexit, threading; atexit.register(print, 'exit'); print('end')\n"
    code += "threading.Thread(target=print, args=['thread']).start()"
    assert sorted(run("-c", code).stdout.split()) == ["end", "exit", "thread"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_the_program(number: int):
    code = "import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()"
    started = subprocess.Popen([*forked_python(), "-c", code], stdout=subprocess.PIPE, text=True)
    with started:
        pid = int(started.stdout.readline())
        started.send_signal(number)
        wait_until_gone(pid)
    assert started.returncode == -number


def test_an_environment_in_which_tensorflow_differs_has_a_tensorflow_of_its_own():
    code = "import os; print(os.getppid())"
    usual, again = (run("-c", code, env=os.environ | {"TF_CONFIG": "{}"}).stdout for _ in range(2))
    other = run("-c", code, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "1"}).stdout
    assert usual == again != other
    assert int(other) > 0


def test_an_environment_that_python_itself_reads_is_refused():
    ended = run("-c", "pass", env=os.environ | {"PYTHONHASHSEED": "1"})
    assert ended.returncode == 1
    assert "start sys.executable" in ended.stderr and "PYTHONHASHSEED" in ended.stderr
