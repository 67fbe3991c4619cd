"""Tests with real processes that are killed, frozen for a moment, or frozen for long.

Parameter servers and workers are on two hosts, between which the network may be lost, if hosts can
be made here.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.isolated import isolated
from tests.support.waiting import work
from tests.sync_replicas.clusters import processes
from tests.sync_replicas.clusters.faults import TAKEOVER_SECS, Cluster, Faults, two_hosts
from tests.sync_replicas.clusters.processes import NUM_WORKERS

pytestmark = [isolated(alone=True), pytest.mark.clusters]
LONG_FAULTS = 400
FROZEN = ("worker", 1)
REPLICAS = 2


def train_with_faults(
    folder: Path, seed: int, workers: int, make_faults: Callable[[Faults], None]
) -> dict[str, int]:
    """Returns which faults there were, and what `check` has counted."""
    with (
        two_hosts() as hosts,
        Cluster(folder, REPLICAS, workers, hosts) as cluster,
        processes.printing_the_log(cluster),
    ):
        cluster.start(*[who for who in cluster.tasks() if who != ("worker", cluster.spare)])
        cluster.await_steps(20)
        faults = Faults(cluster, hosts, random.Random(seed))
        make_faults(faults)
        cluster.check_running()
        cluster.await_steps(20)
        counts = {**faults.counts, **processes.check(cluster)}
        print(counts)
        return counts


def test_weights_are_what_the_logs_say_after_each_fault(tmp_path, seed):
    def make(faults: Faults) -> None:
        faults.each_once()
        faults.replace_chief()

    counts = train_with_faults(tmp_path, seed, NUM_WORKERS, make)
    assert all(counts[kind] > 0 for kind in ("stops", "chiefs", "servers", "replaced", "takes"))


@pytest.mark.long
@pytest.mark.parametrize("workers", [3, 8])
def test_weights_are_what_the_logs_say_after_many_faults(tmp_path, seed, workers):
    def make(faults: Faults) -> None:
        for _ in range(LONG_FAULTS):
            faults.any()

    counts = train_with_faults(tmp_path, seed, workers, make)
    assert all(counts[kind] > 0 for kind in ("chiefs", "servers", "replaced"))


@pytest.mark.parametrize("steps", [20, pytest.param(2000, marks=pytest.mark.long)])
def test_the_others_take_over_the_slot_of_a_frozen_worker(tmp_path, steps):
    """Every round needs a gradient of each worker, so the others go on only if they take it over.

    They make fewer than 20 steps in the round that the worker was in, and in the next one.
    """
    with started(tmp_path, TAKEOVER_SECS) as cluster:
        cluster.freeze(FROZEN)
        cluster.await_steps(steps)
        cluster.unfreeze(FROZEN)
        cluster.await_steps(20, FROZEN[1])
        assert processes.check(cluster)["takeovers"] > 0


@pytest.mark.long
def test_without_takeovers_the_others_wait_for_a_frozen_worker(tmp_path):
    with started(tmp_path, takeover_secs=None) as cluster:
        cluster.freeze(FROZEN)
        before = len(cluster.events("step"))
        work(10)
        # The others end the round if it was complete already, and steps that had been made.
        assert len(cluster.events("step")) - before <= 2 * (NUM_WORKERS - 1)
        cluster.unfreeze(FROZEN)
        cluster.await_steps(20, FROZEN[1])
        assert processes.check(cluster)["takeovers"] == 0


@contextlib.contextmanager
def started(folder: Path, takeover_secs: float | None) -> Iterator[processes.Cluster]:
    """Yields a cluster each of whose workers has made steps."""
    with (
        processes.Cluster(folder, NUM_WORKERS, takeover_secs) as cluster,
        processes.printing_the_log(cluster),
    ):
        cluster.start()
        # A worker that has never come is not waited for.
        cluster.await_steps(5, *range(NUM_WORKERS))
        yield cluster
