"""Runs of the programs of the package in processes of their own, whose start is not tested."""

from __future__ import annotations

import subprocess

from tests.processes.forked_python import forked_python

TIMEOUT_SECONDS = 110


def run_program(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m tf_condacc.MODULE`` with arguments, and returns its end and its output."""
    return subprocess.run(
        [*forked_python(), "-m", f"tf_condacc.{module}", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
