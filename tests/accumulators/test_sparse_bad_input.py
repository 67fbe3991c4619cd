"""Tests of sparse accumulators in other processes: bad input, short memory, no held gradients.

TensorFlow's own accumulator aborts the process on some of these inputs.
"""

from __future__ import annotations

import pytest

from tests.support.trial_runs import Results, each_trial
from tests.trials import sparse_bad_input_trials, sparse_fold_trials, sparse_memory_trials

pytestmark = pytest.mark.kinds("sparse")


@pytest.fixture(scope="module")
def results_without_holding(ours):
    return Results(ours, {"TF_CONDACC_HOLD_BYTES": "0"})


@each_trial(sparse_bad_input_trials)
def test_bad_input_is_refused(results, trial):
    results.check(sparse_bad_input_trials, trial)


@each_trial(sparse_memory_trials)
def test_refused_allocation_leaves_the_accumulator_as_it_was(results, trial):
    results.check(sparse_memory_trials, trial)


@each_trial(sparse_fold_trials)
def test_gradients_that_are_merged_at_once_come_to_the_same(results_without_holding, trial):
    results_without_holding.check(sparse_fold_trials, trial)
