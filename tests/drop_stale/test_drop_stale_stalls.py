"""What the log tells of an accepted update that does not end."""

from __future__ import annotations

import re

import drop_stale_stall_trials
import pytest
from trial_runs import outcomes

SCRIPT = "drop_stale_stall_trials.py"


@pytest.fixture(scope="module")
def warnings_of(ours):
    def run(trial):
        env = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "1"}
        found = outcomes(SCRIPT, ours.name, [trial], env)
        for outcome in found.values():
            assert outcome.passed, outcome.detail
        return [line for line in found[trial].log.splitlines() if "under way" in line]

    return run


def test_update_that_does_not_end_is_warned_about_once(warnings_of):
    (line,) = warnings_of("update_that_does_not_end_is_warned_about")
    assert "'HeldUp'" in line, "names the optimizer"
    assert re.search(r"step 7\b", line)
    assert re.search(r"\b1 s\b", line), "how long"
    assert re.search(rf"\b{drop_stale_stall_trials.NUM_DROPPED} updates .*were dropped", line)
    assert "must not" in line, "names the likely cause"


def test_update_that_ends_in_time_is_not_warned_about(warnings_of):
    assert warnings_of("update_that_ends_in_time_is_not_warned_about") == []
