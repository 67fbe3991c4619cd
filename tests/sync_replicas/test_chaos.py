"""Tests with real processes that are killed, stopped at random, or frozen for long."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.forked_python import forked_python

SUPPORT = Path(__file__).resolve().parents[1] / "support"
LONG_SECS = 600


def run(program: str, seconds: float, *arguments: float) -> dict[str, int]:
    """Runs a program that lasts for so long; returns the counts that it prints."""
    done = subprocess.run(
        [*forked_python(), str(SUPPORT / program), str(seconds), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds + 240,
        cwd=SUPPORT.parents[1],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_weights_are_what_the_logs_say_after_a_few_faults(seed):
    counts = run("sync_replicas_chaos.py", 6, seed)
    assert counts["kills"] + counts["stops"] > 0
    assert counts["takes"] > 0


@pytest.mark.long
@pytest.mark.parametrize("workers", [3, 8])
def test_weights_are_what_the_logs_say_after_many_faults(seed, workers):
    counts = run("sync_replicas_chaos.py", LONG_SECS, seed, workers)
    assert all(counts[kind] > 0 for kind in ("chiefs", "servers", "replaced"))


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.long)])
def test_the_others_take_over_the_slot_of_a_frozen_worker(seconds):
    counts = run("sync_replicas_frozen.py", seconds, 0.3)
    assert counts["takeovers"] > 0
    assert counts["meanwhile"] > 20


@pytest.mark.long
def test_without_takeovers_the_others_wait_for_a_frozen_worker():
    counts = run("sync_replicas_frozen.py", 10)
    assert counts["meanwhile"] == counts["takeovers"] == 0
