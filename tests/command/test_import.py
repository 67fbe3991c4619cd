"""The import of tf_condacc imports the core, and changes nothing else in the process."""

from __future__ import annotations

import json
import os

import pytest

from tests.command.processes import ROOT
from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

_CODE = """
import json, os, signal, sys, threading
import tensorflow, tensorflow.compat.v1

def handle(number, frame): pass

def state():
    children = [
        open(f"/proc/self/task/{task}/children").read() for task in os.listdir("/proc/self/task")
    ]
    return {
        "arguments": [list(sys.argv), list(sys.orig_argv)],
        "children": "".join(children),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "handlers": [repr(signal.getsignal(number)) for number in signal.valid_signals()],
        "hooks": [repr(sys.excepthook), repr(sys.meta_path), repr(sys.path)],
        "standard error": os.path.exists("/proc/self/fd/2"),
        "streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr)],
        "threads": [thread.name for thread in threading.enumerate()],
    }

arguments = json.loads(sys.argv[1])
sys.argv[:] = arguments[-2:]
sys.orig_argv[:] = ["python", *arguments]
signal.signal(signal.SIGINT, handle)
os.close(2)
before = state()
import tf_condacc
after = state()
print(json.dumps([name for name in before if before[name] != after[name]]))
"""

_PARTS = """
import sys
import tf_condacc

def imported():
    return [name for name in tf_condacc.__all__ if f"tf_condacc.{name}" in sys.modules]

print(*imported())
print(*set(tf_condacc.__all__) - set(dir(tf_condacc)))
tf_condacc.cluster.start
print(*imported())
from tf_condacc import estimator
print(*imported(), estimator is sys.modules["tf_condacc.estimator"] is tf_condacc.estimator)
"""


def run(code: str, *arguments: str) -> str:
    """Returns what a program prints that imports the package."""
    ended = run_program(
        [*forked_python(), "-c", code, *arguments], env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["train.py", "--keras2"],
        ["-m", "their_program"],
        ["-m", "condacc", "run", "--keras2", "train.py"],
        ["-m", "condacc", "launch", "--help"],
        ["-m", "tf_condacc", "-m", "--help"],
    ],
    ids=" ".join,
)
def test_nothing_is_changed(arguments: list[str]):
    assert run(_CODE, json.dumps(arguments)) == "[]\n"


def test_the_other_packages_are_imported_when_they_are_used():
    assert run(_PARTS).splitlines() == [
        "sparse",
        "",
        "cluster sparse",
        "cluster estimator sparse True",
    ]
