"""The end of training: parameter servers end last, and nobody takes their end for a fault."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.forked_python import forked_python

ENDS = Path(__file__).resolve().parents[1] / "support" / "cluster_ends.py"
_FAULT = re.compile(r"not told|UNAVAILABLE|[Ff]ailed to connect|reset by peer|Broken pipe")
_REPORT_LIMIT_SECS = 3


@pytest.mark.parametrize("runs", [2, pytest.param(50, marks=pytest.mark.long)])
def test_no_end_of_a_training_looks_like_a_fault(tmp_path, runs):
    done = subprocess.run(
        [*forked_python(), str(ENDS), str(tmp_path), str(runs)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"},
        capture_output=True,
        text=True,
        timeout=30 + 20 * runs,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(reports) == runs, done.stderr[-4000:]
    for each in reports:
        assert each["statuses"] == [0], each["messages"]
        assert not _FAULT.search(each["messages"]), each["messages"]
        assert each["report_secs"] < _REPORT_LIMIT_SECS
