"""Bad input to the ops of the gate, and unusual ends: clear errors, and a process that lives."""

from __future__ import annotations

import drop_stale_atomic_end_trials
import drop_stale_atomic_trials
import pytest
from trial_runs import Results


@pytest.fixture(scope="module")
def results(ours):
    return Results(ours)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trial", [*drop_stale_atomic_trials.TRIALS, "exit"])
def test_bad_input_is_refused_and_changes_nothing(results, trial):
    results.check(drop_stale_atomic_trials, trial)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trial", [*drop_stale_atomic_end_trials.TRIALS, "exit"])
def test_unusual_end_is_clean(results, trial):
    results.check(drop_stale_atomic_end_trials, trial)
