"""Runs of the programs of the package in processes of their own."""

from __future__ import annotations

import subprocess
import sys

TIMEOUT_SECONDS = 110


def run_program(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m tf_condacc.MODULE`` with arguments, and returns its end and its output."""
    return subprocess.run(
        [sys.executable, "-m", f"tf_condacc.{module}", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
