"""Tests of bad input to our accumulators: a clear error, unchanged state, and a live process.

TensorFlow's own accumulator aborts the process on most of these inputs. The trials of our
accumulator run together in one process. If a trial ends that process, this trial fails, and the
remaining trials run in a new process.
"""

from __future__ import annotations

from tests.support.accumulator_support import every_kind
from tests.support.trial_runs import each_trial, outcomes
from tests.trials import (
    bad_dtype_trials,
    bad_handle_trials,
    bad_scalars_trials,
    dense_memory_trials,
)

TOGETHER = (bad_scalars_trials, bad_dtype_trials, bad_handle_trials)


def test_original_dies_of_bad_input_and_is_seen_to(original):
    """Shows that a signal differs from a refusal, and that the next trial still runs."""
    trials = ["not_a_scalar-local_step-(2,)-eager", "not_a_scalar-new_global_step-(0,)-eager"]
    found = outcomes(bad_scalars_trials, original, trials)
    for trial in trials:
        assert not found[trial].passed
        assert found[trial].detail.startswith("exit status -6"), "SIGABRT"


@each_trial(bad_scalars_trials)
@every_kind
def test_input_that_is_no_scalar_is_refused(results, trial):
    results.check(bad_scalars_trials, trial)


@each_trial(bad_dtype_trials)
@every_kind
def test_gradient_or_take_of_another_kind_is_refused(results, trial):
    results.check(bad_dtype_trials, trial)


@each_trial(bad_handle_trials)
@every_kind
def test_wrong_or_vanished_handle_is_refused(results, trial):
    results.check(bad_handle_trials, trial)


@each_trial(dense_memory_trials)
def test_refused_allocation_leaves_the_accumulator_as_it_was(results, trial):
    results.check(dense_memory_trials, trial)
