"""Tests of bad input to the ops of the gate, and of unusual ends: clear errors, a live process."""

from __future__ import annotations

from tests.support.trial_runs import each_trial
from tests.trials import drop_stale_atomic_end_trials, drop_stale_atomic_trials

TOGETHER = (drop_stale_atomic_trials, drop_stale_atomic_end_trials)


@each_trial(drop_stale_atomic_trials)
def test_bad_input_is_refused_and_changes_nothing(results, trial):
    results.check(drop_stale_atomic_trials, trial)


@each_trial(drop_stale_atomic_end_trials)
def test_unusual_end_is_clean(results, trial):
    results.check(drop_stale_atomic_end_trials, trial)
