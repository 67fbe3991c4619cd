"""Ends of sessions and processes, Ctrl-C and warnings, each seen from outside the process."""

from __future__ import annotations

import re

import pytest
from accumulator_support import every_kind, needs_resource
from trial_runs import outcomes

pytestmark = every_kind

SCRIPT = "lifetime_trials.py"
CLEAN_ENDS = [
    "four_hundred_waiting_takes_then_close",
    "twenty_times_close_with_a_waiting_take",
    "session_is_dropped_after_a_cancelled_take",
]
WAITING_EXIT = "process_exits_with_waiting_takes"


@pytest.fixture(scope="module")
def ends(impl):
    return outcomes(SCRIPT, impl.name, CLEAN_ENDS + [WAITING_EXIT] * impl.has_resource)


def run_one(impl, trial, **env):
    """Runs one trial with TensorFlow's warnings shown; returns what it logged."""
    found = outcomes(SCRIPT, impl.name, [trial], {"TF_CPP_MIN_LOG_LEVEL": "1", **env})
    for outcome in found.values():
        assert outcome.passed, outcome.detail
    return found[trial].log


def lines_with(log, text):
    return [line for line in log.splitlines() if text in line]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "trial", [*CLEAN_ENDS, pytest.param(WAITING_EXIT, marks=needs_resource), "exit"]
)
def test_ending_with_waiting_takes_is_clean(ends, trial):
    assert ends[trial].passed, ends[trial].detail


def test_ctrl_c_ends_an_eager_take(ours):
    run_one(ours, "ctrl_c_ends_an_eager_take")


def test_lower_step_is_warned_about(impl):
    log = run_one(impl, "lower_step_is_warned_about")
    (line,) = lines_with(log, "Attempt to set current_global_step_ to smaller value")
    assert re.search(r"\b7\b.*\b2\b", line.partition("smaller value")[2])
    if impl.ours:
        assert "lowered" in line


def test_stalled_take_is_warned_about_once(ours):
    log = run_one(ours, "stalled_take_is_warned_about", TF_CONDACC_STALL_WARNING_SECS="1")
    (line,) = lines_with(log, "stalled_one")
    assert re.search(r"\b2\b.*\b5\b|\b5\b.*\b2\b", line), "have and need"
    assert re.search(r"step\D*7\b|\b7\b\D*step", line), "its step"
    assert re.search(r"\b3\b\D*(drop|stale)|(drop|stale)\D*\b3\b", line), "the drops"
    assert re.search(r" W | W\d{4} |WARN|^W", line), "it is a warning"


def test_take_that_ends_in_time_is_not_warned_about(ours):
    log = run_one(
        ours, "take_that_ends_in_time_is_not_warned_about", TF_CONDACC_STALL_WARNING_SECS="1"
    )
    assert lines_with(log, "quick_one") == []
