"""The import of tf_condacc imports, and changes nothing else in the process."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.command.processes import ROOT
from tests.processes.forked_python import forked_python

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
    ended = subprocess.run(
        [*forked_python(), "-c", _CODE, json.dumps(arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
