"""Processes of the command ``condacc``, in which something happens when a module is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
# Python imports a module of this name before anything else.
_SITE = """
import os, signal, sys

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if {condition}:
            {action}

sys.meta_path.insert(0, AtImport())
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def runner(folder: Path, condition: str, action: str, first: str = "") -> Run:
    """Returns a function that runs ``python -m condacc`` with arguments.

    Args:
        folder: A folder for files that the process needs.
        condition: Python expression for the modules, by their `name`, at whose import something
            happens.
        action: Statement that is executed then.
        first: Statement that is executed when Python starts.
    """
    site = _SITE.format(condition=condition, action=action)
    (folder / "sitecustomize.py").write_text(f"{site}\n{first}\n")
    environment = {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}

    def run(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        return run_program(
            [sys.executable, "-m", "condacc", *map(str, arguments)],
            env=os.environ | environment,
            capture_output=False,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    return run
