"""Tests of accumulators under the strategies of one process."""

from __future__ import annotations

import distribute_refusal_trials
import distribute_trials
from trial_runs import each_trial

TOGETHER = [distribute_trials, distribute_refusal_trials]


@each_trial(distribute_trials)
def test_under_a_strategy(results, trial):
    results.check(distribute_trials, trial)


@each_trial(distribute_refusal_trials)
def test_refusal_under_a_strategy(results, trial):
    results.check(distribute_refusal_trials, trial)
