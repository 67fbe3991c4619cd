"""Tests of accumulators under the strategies of several processes."""

from __future__ import annotations

from tests.support.trial_runs import each_trial
from tests.trials import distribute_process_trials


@each_trial(distribute_process_trials)
def test_under_a_strategy_of_processes(results, trial):
    results.check(distribute_process_trials, trial)
