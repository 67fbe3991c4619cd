"""Tests of the ends of sessions and processes, of Ctrl-C and of warnings, in other processes."""

from __future__ import annotations

import re

import pytest

from tests.support.accumulator_support import every_kind, needs_resource
from tests.support.trial_runs import each_trial, outcomes
from tests.trials import lifetime_trials

# Any of these tests may be the first one, which runs all trials of its implementation.
pytestmark = [every_kind, pytest.mark.timeout(600)]

CLEAN_ENDS = [
    "four_hundred_waiting_takes_then_close",
    "twenty_times_close_with_a_waiting_take",
    "session_is_dropped_after_a_cancelled_take",
]
WAITING_EXIT = "process_exits_with_waiting_takes"
LOWER_STEP = "lower_step_is_warned_about"
STALLED, IN_TIME = "stalled_take_is_warned_about", "take_that_ends_in_time_is_not_warned_about"
CTRL_C = "ctrl_c_ends_an_eager_take"
# TensorFlow shows its warnings, and our warning about a take that waits comes after one second.
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "1"}


@pytest.fixture(scope="module")
def log_of():
    """Runs all trials of an implementation in one process; returns the log of one that passed."""
    found = {}

    def log_of(impl, trial):
        if impl.name not in found:
            names = [*CLEAN_ENDS, LOWER_STEP]
            names += [CTRL_C, IN_TIME, STALLED] * impl.ours + [WAITING_EXIT] * impl.has_resource
            found[impl.name] = outcomes(lifetime_trials, impl, names, ENVIRONMENT)
        outcome = found[impl.name][trial]
        assert outcome.passed, outcome.detail
        return outcome.log

    return log_of


def lines_with(log, text):
    return [line for line in log.splitlines() if text in line]


@each_trial(lifetime_trials, [*CLEAN_ENDS, pytest.param(WAITING_EXIT, marks=needs_resource)])
def test_ending_with_waiting_takes_is_clean(log_of, impl, trial):
    log_of(impl, trial)


def test_ctrl_c_ends_an_eager_take(log_of, ours):
    log_of(ours, CTRL_C)


def test_lower_step_is_warned_about(log_of, impl):
    log = log_of(impl, LOWER_STEP)
    (line,) = lines_with(log, "Attempt to set current_global_step_ to smaller value")
    assert re.search(r"\b7\b.*\b2\b", line.partition("smaller value")[2])
    if impl.ours:
        assert "lowered" in line


def test_stalled_take_is_warned_about_once(log_of, ours):
    (line,) = lines_with(log_of(ours, STALLED), "stalled_one")
    assert re.search(r"\b2\b.*\b5\b|\b5\b.*\b2\b", line), "have and need"
    assert re.search(r"step\D*7\b|\b7\b\D*step", line), "its step"
    assert re.search(r"\b3\b\D*(drop|stale)|(drop|stale)\D*\b3\b", line), "the drops"
    assert re.search(r" W | W\d{4} |WARN|^W", line), "it is a warning"
    assert "local step 0, the default of apply_grad: pass local_step=" in line


def test_default_step_is_blamed_only_if_the_last_drop_had_it(log_of, ours):
    (line,) = lines_with(log_of(ours, STALLED), "late_gradient")
    assert line.endswith("the last of them with local step 3.")


def test_take_that_ends_in_time_is_not_warned_about(log_of, ours):
    assert lines_with(log_of(ours, IN_TIME), "quick_one") == []
