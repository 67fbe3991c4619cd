"""Tests of numbers of gradients and workers that are not those of the workers that come."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.sync_replicas.one_worker import updates_of
from tests.sync_replicas.training import OneProcess

v1 = tf.compat.v1
# The numbers of gradients and workers that are given, and that of the workers that come.
_SOME = [(1, 3, 1), (2, 2, 1), (3, 1, 1), (3, 4, 1), (4, 4, 1)]
_SOME += [(1, 4, 2), (2, 1, 3), (2, 2, 4), (3, 4, 2), (4, 4, 2), (4, 3, 3)]


@pytest.mark.parametrize(
    ("replicas", "total"),
    [
        pytest.param(*counts, marks=[] if (*counts, 1) in _SOME else pytest.mark.long)
        for counts in itertools.product(range(1, 5), range(1, 5))
    ],
)
def test_one_worker_makes_the_updates_of_the_original(replicas, total):
    """It computes all gradients of a round, whatever number of workers is given."""
    ours = updates_of(tf_condacc.SyncReplicasOptimizer, replicas, total, 3)
    theirs = updates_of(v1.train.SyncReplicasOptimizer, replicas, total, 3)
    for number in sorted(ours.keys() & theirs.keys()):
        np.testing.assert_array_equal(ours[number], theirs[number])
    assert len(ours.keys() & theirs.keys()) >= 2


@pytest.mark.parametrize(
    ("replicas", "total", "num_workers"),
    [
        pytest.param(*counts, marks=[] if counts in _SOME else pytest.mark.long)
        for counts in itertools.product(range(1, 5), range(1, 5), range(2, 5))
    ],
)
def test_each_update_has_the_gradients_of_the_workers_that_have_come(
    training, replicas, total, num_workers
):
    """The chief trains alone at first. `check` finds one gradient of each slot in each update."""
    run = training(OneProcess(), replicas, total)
    run.models += [run._make(task) for task in range(len(run.models), num_workers)]
    run.start(0, last_step=6)
    while run.step(0) < 2:
        pass
    run.start(*range(1, num_workers))
    for task in range(num_workers):
        run.train_on_thread(task)
    run.join()
    run.check()
    takes = collections.Counter(
        event["round"] for event in run.log.events if event["kind"] == "take"
    )
    assert len(takes) >= 6 and set(takes.values()) == {2}  # There are two variables.
    with_slots = {
        event["task"]
        for event in run.log.events
        if event["kind"] == "push" and event["outcome"] == tf_condacc.ApplyOutcome.ADDED
    }
    if replicas >= total >= num_workers:
        assert with_slots == set(range(num_workers))
