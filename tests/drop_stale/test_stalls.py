"""Tests of the warning about an accepted update that does not end."""

from __future__ import annotations

import re

import pytest

from tests.support.trial_runs import outcomes
from tests.trials import drop_stale_stall_trials

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "1"}


@pytest.fixture(scope="module")
def warnings_of(ours):
    found = outcomes(drop_stale_stall_trials, ours, drop_stale_stall_trials.TRIALS, ENVIRONMENT)

    def warnings_of(trial, optimizer):
        assert found[trial].passed and found["exit"].passed, found[trial].detail
        lines = found[trial].log.splitlines()
        return [line for line in lines if "under way" in line and f"'{optimizer}'" in line]

    return warnings_of


def test_update_that_does_not_end_is_warned_about_once(warnings_of):
    (line,) = warnings_of("update_that_does_not_end_is_warned_about", "HeldUp")
    assert re.search(r"step 7\b", line)
    assert re.search(r"\b1 s\b", line), "how long"
    assert re.search(rf"\b{drop_stale_stall_trials.NUM_DROPPED} updates .*were dropped", line)
    assert "must not" in line, "names the likely cause"


def test_update_that_ends_in_time_is_not_warned_about(warnings_of):
    assert warnings_of("update_that_ends_in_time_is_not_warned_about", "Quick") == []
