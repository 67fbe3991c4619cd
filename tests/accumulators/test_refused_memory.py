"""Tests of held, freed and refused memory, with replaced functions of the C library."""

from __future__ import annotations

import os

import pytest

from tests.support.preload import environment
from tests.support.trial_runs import Results, each_trial, log_of
from tests.trials import refused_output_trials, sparse_held_trials

pytestmark = pytest.mark.kinds("sparse")


def test_nothing_is_held_back_beyond_the_budget(ours):
    trial = "four_accumulators_hold_one_gradient_each_beside_their_sums"
    # With these settings malloc returns all freed memory, so resident memory is memory that is
    # held.
    env = {"TF_CONDACC_HOLD_BYTES": "0", "MALLOC_MMAP_THRESHOLD_": "1000000"}
    log_of(sparse_held_trials, ours, trial, env)


def test_takes_do_not_wait_while_the_heap_is_trimmed(ours, tmp_path):
    pipes = {name: str(tmp_path / name) for name in ("CONDACC_TRIM_BEGUN", "CONDACC_TRIM_MAY_END")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    env = {**environment(tmp_path), **pipes, "TF_CONDACC_HOLD_BYTES": "0"}
    log_of(sparse_held_trials, ours, "takes_do_not_wait_while_the_heap_is_trimmed", env)


@pytest.fixture(scope="module")
def refused_outputs(ours, tmp_path_factory):
    return Results(ours, environment(tmp_path_factory.mktemp("preload")))


@each_trial(refused_output_trials)
def test_refused_output_loses_no_gradient(refused_outputs, trial):
    refused_outputs.check(refused_output_trials, trial)
