"""Tests of accumulators under the strategies of one process."""

from __future__ import annotations

import distribute_trials
from trial_runs import each_trial


@each_trial(distribute_trials)
def test_under_a_strategy(results, trial):
    results.check(distribute_trials, trial)
