"""Processes for tests of `tf_condacc.compat`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
RUNNER = (sys.executable, "-m", "condacc", "run")


def run(
    *command: str | Path, cwd: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[Any]:
    """Runs a command with the Keras of TensorFlow's choice, and returns its end and its output."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # It selects Keras 2 in the tests.
    return run_program(command, cwd=cwd, env=environment | dict(variables or {}))
