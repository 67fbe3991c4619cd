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
from tests.sync_replicas.clusters.processes import Cluster

pytestmark = [isolated(alone=True), pytest.mark.clusters]
LONG_FAULTS = 400


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
