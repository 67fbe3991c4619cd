"""Real processes that are killed and stopped at random."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).resolve().parents[1] / "support" / "sync_replicas_chaos.py"
LONG_SECS = 600


def chaos(seconds: float, seed: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, str(CHAOS), str(seconds), str(seed)],
        capture_output=True,
        text=True,
        timeout=seconds + 240,
        cwd=CHAOS.parents[2],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_weights_are_what_the_logs_say_after_a_few_faults(seed):
    counts = chaos(6, seed)
    assert counts["kills"] + counts["stops"] > 0
    assert counts["takes"] > 0


@pytest.mark.long
def test_weights_are_what_the_logs_say_after_many_faults(seed):
    counts = chaos(LONG_SECS, seed)
    assert counts["chiefs"] > 0 and counts["servers"] > 0
