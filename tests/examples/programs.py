"""Runs of the examples, in processes of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def path_of(program: str) -> str:
    return str(ROOT / "examples" / f"{program}.py")


def run(program: str, *options: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs an example in a folder, into which it draws its picture."""
    command = [*forked_python(), path_of(program), *map(str, options)]
    return run_program(command, cwd=folder, env=os.environ | ENVIRONMENT)


def output_of(program: str, *options: object, folder: Path) -> str:
    """Returns the output of an example, which must succeed and draw its picture."""
    ended = run(program, *options, folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert (folder / f"{program}.png").read_bytes().startswith(b"\x89PNG")
    return ended.stdout
