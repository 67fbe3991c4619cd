"""Networks between two hosts that are lost for a while."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from forked_python import forked_python

PARTITIONS = Path(__file__).resolve().parents[1] / "support" / "cluster_partitions.py"
# It takes 2 to 5 seconds. Without pings of the connections it takes up to a minute.
LIMIT_SECS = 15


@pytest.mark.long
def test_training_goes_on_soon_after_a_partition_and_nothing_counts_twice(tmp_path):
    done = subprocess.run(
        [*forked_python(), str(PARTITIONS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    *partitions, last = [json.loads(line) for line in done.stdout.splitlines()] or [{}]
    if "reason" in last:
        pytest.skip(f"network namespaces cannot be made here: {last['reason']}")
    print(*partitions, last, sep="\n")
    assert done.returncode == 0, done.stderr[-6000:]
    assert [each["partition"] for each in partitions] == ["10 s", "60 s", "60 s, one way"]
    assert all(each["secs"] < LIMIT_SECS for each in partitions), partitions
