"""Runs the examples of docs/guides/migration, and reads what they are recorded to print."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "guides" / "migration"
EXAMPLES = ("accumulators", "drop_stale", "towers")

# This program is run by Python 3.7 as well. The examples share a process, and one TensorFlow.
_RUN = """
import json, runpy, sys
for path in json.load(sys.stdin):
    print("== " + path, flush=True)
    runpy.run_path(path, run_name="__main__")
"""


def recorded(example: str) -> str:
    """Returns the output of an example's `before.py` on TensorFlow 1.15.5."""
    return (FOLDER / example / "output.txt").read_text(encoding="utf-8")


def outputs_of(
    python: Sequence[str], program: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Runs `program` of every example in one process, and returns the outputs by example.

    Args:
        python: Command of the Python that runs them.
        program: Name of the file, "before.py" or "after.py".
        environment: Variables that are set besides those of this process.
    """
    run = run_program(
        [*python, "-c", _RUN],
        input=json.dumps([str(FOLDER / example / program) for example in EXAMPLES]),
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    outputs = re.split(r"^== .*\n", run.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(EXAMPLES, outputs, strict=True))
