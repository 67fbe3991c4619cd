"""Tests of accumulators under the strategies of one process."""

from __future__ import annotations

from tests.support.trial_runs import each_trial
from tests.trials import distribute_refusal_trials, distribute_trials

TOGETHER = [distribute_trials, distribute_refusal_trials]


@each_trial(distribute_trials)
def test_under_a_strategy(results, trial):
    results.check(distribute_trials, trial)


@each_trial(distribute_refusal_trials)
def test_refusal_under_a_strategy(results, trial):
    results.check(distribute_refusal_trials, trial)
