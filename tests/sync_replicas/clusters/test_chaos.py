"""Tests with real processes that are killed, frozen for a moment, or frozen for long.

Parameter servers and workers are on two hosts, between which the network may be lost, if hosts can
be made here.
"""

from __future__ import annotations

import random

import pytest

from tests.processes.isolated import isolated
from tests.sync_replicas.clusters import processes
from tests.sync_replicas.clusters.faults import TAKEOVER_SECS, Faults, two_hosts
from tests.sync_replicas.clusters.processes import NUM_WORKERS, Cluster

pytestmark = [isolated(alone=True), pytest.mark.clusters]
LONG_FAULTS = 400
FROZEN = ("worker", 1)


@pytest.mark.long
@pytest.mark.parametrize("workers", [3, 8])
def test_weights_are_what_the_logs_say_after_many_faults(tmp_path, seed, workers):
    with (
        two_hosts() as hosts,
        Cluster(tmp_path, 2, TAKEOVER_SECS, workers, hosts) as cluster,
    ):
        cluster.start_all()
        cluster.await_steps(20)
        faults = Faults(cluster, hosts, random.Random(seed))
        for _ in range(LONG_FAULTS):
            faults.any()
        cluster.await_steps(20)
        print(faults.counts, processes.check(cluster))
        assert all(faults.counts[kind] > 0 for kind in ("chiefs", "servers", "replaced"))


@pytest.mark.parametrize("steps", [20, pytest.param(2000, marks=pytest.mark.long)])
def test_the_others_take_over_the_slot_of_a_frozen_worker(tmp_path, steps):
    """Every round needs a gradient of each worker, so the others go on only if they take it over.

    They make fewer than 20 steps in the round that the worker was in, and in the next one.
    """
    with Cluster(tmp_path, NUM_WORKERS, TAKEOVER_SECS) as cluster:
        cluster.start_all()
        # A worker that has never come is not waited for.
        cluster.await_steps(5, *range(NUM_WORKERS))
        cluster.freeze(FROZEN)
        cluster.await_steps(steps)
        cluster.unfreeze(FROZEN)
        cluster.await_steps(20, FROZEN[1])
        assert processes.check(cluster)["takeovers"] > 0
