"""Memory that accumulators hold, give back, and are refused, where functions of C are replaced."""

from __future__ import annotations

import os

import pytest
import refused_output_trials
import sparse_held_trials
from preload import environment
from trial_runs import outcomes

pytestmark = pytest.mark.kinds("sparse")


def assert_passes(module, trial, impl, env):
    found = outcomes(module.__name__ + ".py", impl.name, [trial], env)
    for outcome in found.values():
        assert outcome.passed, outcome.detail


def test_nothing_is_held_back_beyond_the_budget(ours):
    trial = "four_accumulators_hold_one_gradient_each_beside_their_sums"
    # malloc then returns all that is freed, so resident memory is memory that is held.
    env = {"TF_CONDACC_HOLD_BYTES": "0", "MALLOC_MMAP_THRESHOLD_": "1000000"}
    assert_passes(sparse_held_trials, trial, ours, env)


def test_takes_do_not_wait_while_the_heap_is_trimmed(ours, tmp_path):
    pipes = {name: str(tmp_path / name) for name in ("CONDACC_TRIM_BEGUN", "CONDACC_TRIM_MAY_END")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    env = {**environment(tmp_path), **pipes, "TF_CONDACC_HOLD_BYTES": "0"}
    assert_passes(sparse_held_trials, "takes_do_not_wait_while_the_heap_is_trimmed", ours, env)


@pytest.mark.parametrize("trial", refused_output_trials.TRIALS)
def test_refused_output_loses_no_gradient(ours, tmp_path, trial):
    assert_passes(refused_output_trials, trial, ours, environment(tmp_path))
