"""Tests of the comparison of trainings: what is equal, and the faults that it finds.

The trials run in one process of their own, because logical CPUs must be configured before
TensorFlow runs its first operation.
"""

from __future__ import annotations

from tests.support.trial_runs import each_trial
from tests.trials import parity_fault_trials, parity_fixture_trials, parity_trials

TOGETHER = (parity_trials, parity_fault_trials, parity_fixture_trials)


@each_trial(parity_trials)
def test_setups_of_training_agree(results, trial):
    results.check(parity_trials, trial)


@each_trial(parity_fault_trials)
def test_planted_faults_are_found_and_described(results, trial):
    results.check(parity_fault_trials, trial)


@each_trial(parity_fixture_trials)
def test_the_fixture_of_pytest_works_as_the_page_shows(results, trial):
    results.check(parity_fixture_trials, trial)
