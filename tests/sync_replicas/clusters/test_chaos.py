"""Tests with real processes that are killed, stopped at random, or frozen for long.

Parameter servers and workers are on two hosts, between which the network may be lost, if hosts can
be made here.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.processes.isolated import isolated
from tests.sync_replicas.clusters import processes
from tests.sync_replicas.clusters.faults import TAKEOVER_SECS, Cluster, Faults, two_hosts
from tests.sync_replicas.clusters.processes import NUM_WORKERS

pytestmark = isolated(alone=True)
LONG_SECS = 600
FROZEN = ("worker", 1)
REPLICAS = 2


def train_with_faults(folder: Path, secs: float, seed: int, workers: int) -> dict[str, int]:
    """Returns what was done in so many seconds, and what `check` has counted."""
    with (
        two_hosts() as hosts,
        Cluster(folder, REPLICAS, workers, hosts) as cluster,
        processes.printing_the_log(cluster),
    ):
        cluster.start(*[who for who in cluster.tasks() if who != ("worker", cluster.spare)])
        cluster.await_steps(20)
        faults = Faults(cluster, hosts, random.Random(seed))
        end = time.monotonic() + secs
        while time.monotonic() < end:
            faults.any()
            cluster.check_running()
        cluster.await_steps(20)
        counts = {**faults.counts, **processes.check(cluster)}
        print(counts)
        return counts


def test_weights_are_what_the_logs_say_after_a_few_faults(tmp_path, seed):
    counts = train_with_faults(tmp_path, 6, seed, NUM_WORKERS)
    assert counts["kills"] + counts["stops"] > 0
    assert counts["takes"] > 0


@pytest.mark.long
@pytest.mark.parametrize("workers", [3, 8])
def test_weights_are_what_the_logs_say_after_many_faults(tmp_path, seed, workers):
    counts = train_with_faults(tmp_path, LONG_SECS, seed, workers)
    assert all(counts[kind] > 0 for kind in ("chiefs", "servers", "replaced"))


def train_without_a_worker(
    folder: Path, secs: float, takeover_secs: float | None
) -> tuple[int, int]:
    """Freezes a worker; returns how many steps the others made meanwhile, and took over.

    Every round needs a gradient of each worker, so the others go on only if they may take its slot
    over.
    """
    with (
        processes.Cluster(folder, NUM_WORKERS, takeover_secs) as cluster,
        processes.printing_the_log(cluster),
    ):
        cluster.start()
        cluster.await_steps(20)
        cluster.await_steps(1, FROZEN[1])  # A worker that has never come is not waited for.
        cluster.freeze(FROZEN)
        time.sleep(1)  # The others end the round if it was complete already.
        before = len(cluster.events("step"))
        time.sleep(secs)
        meanwhile = len(cluster.events("step")) - before
        cluster.unfreeze(FROZEN)
        cluster.await_steps(20, FROZEN[1])
        return meanwhile, processes.check(cluster)["takeovers"]


@pytest.mark.parametrize("secs", [3, pytest.param(30, marks=pytest.mark.long)])
def test_the_others_take_over_the_slot_of_a_frozen_worker(tmp_path, secs):
    meanwhile, takeovers = train_without_a_worker(tmp_path, secs, takeover_secs=TAKEOVER_SECS)
    assert takeovers > 0
    assert meanwhile > 20


@pytest.mark.long
def test_without_takeovers_the_others_wait_for_a_frozen_worker(tmp_path):
    assert train_without_a_worker(tmp_path, 10, takeover_secs=None) == (0, 0)
