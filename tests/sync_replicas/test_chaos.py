"""Tests with real processes that are killed, stopped at random, or frozen for long.

Parameter servers and workers are on two hosts, between which the network may be lost, if hosts can
be made here.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes.clusters import Task
from tests.processes.isolated import isolated
from tests.processes.separate_hosts import ADDRESSES, SeparateHosts
from tests.sync_replicas import processes
from tests.sync_replicas.processes import NUM_PS, NUM_WORKERS

pytestmark = isolated(alone=True)
LONG_SECS = 600
FROZEN = ("worker", 1)
REPLICAS, TAKEOVER_SECS = 2, 0.3


class Cluster(processes.Cluster):
    """A cluster with a place for a second chief.

    Args:
        folder: Folder of the log.
        num_workers: Number of workers that train at once, the chief included.
        hosts: Two hosts on which its processes are, or None for this machine.

    Attributes:
        chief: The place of the chief among the workers: the first one, or the one after the last.
    """

    def __init__(self, folder: Path, num_workers: int, hosts: SeparateHosts | None) -> None:
        super().__init__(folder, REPLICAS, TAKEOVER_SECS, num_workers + 1)
        self.num_workers = num_workers
        self.chief = 0
        self._hosts = hosts
        if hosts is not None:
            ports = iter(range(31_000, 32_000))
            self.spec = {
                job: [f"{ADDRESSES[task % 2]}:{next(ports)}" for task in range(len(addresses))]
                for job, addresses in self.spec.items()
            }

    @property
    def spare(self) -> int:
        """The place where a second chief can be started."""
        return self.num_workers - self.chief

    def model(self, task: int, *args: Any, **arguments: Any) -> Any:
        return super().model(task, *args, is_chief=task == self.chief, **arguments)

    def _train(self, job: str, task: int, number: int) -> None:
        if self._hosts is not None:
            self._hosts.enter(task % 2)
        super()._train(job, task, number)


class Faults:
    """Faults of random processes, each of which ends with training that goes on.

    Args:
        cluster: The cluster.
        hosts: Its hosts; None if it has none.
        chance: Decides.
    """

    def __init__(
        self, cluster: Cluster, hosts: SeparateHosts | None, chance: random.Random
    ) -> None:
        self._cluster, self._hosts, self._chance = cluster, hosts, chance
        self._log = cluster.open_log()
        names = ("kills", "stops", "chiefs", "servers", "replaced", "partitions")
        self.counts = dict.fromkeys(names, 0)

    def any(self) -> None:
        kind = self._chance.random()
        if kind < 0.04:
            return self.replace_chief()
        if kind < 0.08 and self._hosts is not None:
            return self.partition()
        who = ("worker", self._chance.randrange(1, self._cluster.num_workers))
        if kind < 0.18:
            who = ("worker", self._cluster.chief)
        elif kind < 0.28:
            who = ("ps", self._chance.randrange(NUM_PS))
        self._pause(0.4)
        return self.kill(who) if self._chance.random() < 0.5 else self.stop(who)

    def kill(self, who: Task) -> None:
        self._note("kills", f"{who[0]} {who[1]}")
        self._cluster.kill(who)
        self._pause(0.5)
        self._cluster.start(who)
        self.counts["chiefs"] += who == ("worker", self._cluster.chief)
        self.counts["servers"] += who[0] == "ps"
        self._cluster.await_steps(5)

    def stop(self, who: Task) -> None:
        self._note("stops", f"{who[0]} {who[1]}")
        self._cluster.freeze(who)
        self._pause(0.8)
        self._cluster.unfreeze(who)

    def replace_chief(self) -> None:
        """Freezes the chief, starts another one, and lets the old one go on, which ends alone."""
        old = ("worker", self._cluster.chief)
        self._note("replaced", f"worker {self._cluster.chief}")
        self._cluster.freeze(old)
        self._cluster.chief = self._cluster.spare
        self._cluster.start(("worker", self._cluster.chief))
        self._cluster.await_steps(5, self._cluster.chief)
        self._cluster.unfreeze(old)
        assert self._cluster.await_end(60, old) == {old: 1}
        self._cluster.await_steps(5, self._cluster.chief)

    def partition(self) -> None:
        self._note("partitions", "hosts")
        lost = self._chance.choice([(0, 1), (0,), (1,)])
        with self._hosts.partition(*lost):
            self._pause(3)
        self._cluster.await_steps(5)

    def _note(self, kind: str, what: str) -> None:
        self._log.add(kind, who=what)
        self.counts[kind] += 1

    def _pause(self, longest_secs: float) -> None:
        time.sleep(self._chance.random() * longest_secs)


@contextlib.contextmanager
def two_hosts() -> Any:
    """Makes two hosts, and moves this process to the first one. Yields None if that is refused."""
    with contextlib.ExitStack() as stack:
        hosts = None
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            made = stack.enter_context(SeparateHosts())
            made.enter(0)
            hosts = made
        yield hosts


def train_with_faults(folder: Path, secs: float, seed: int, workers: int) -> dict[str, int]:
    """Returns what was done in so many seconds, and what `check` has counted."""
    with (
        two_hosts() as hosts,
        Cluster(folder, workers, hosts) as cluster,
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
    meanwhile, takeovers = train_without_a_worker(tmp_path, secs, takeover_secs=0.3)
    assert takeovers > 0
    assert meanwhile > 20


@pytest.mark.long
def test_without_takeovers_the_others_wait_for_a_frozen_worker(tmp_path):
    assert train_without_a_worker(tmp_path, 10, takeover_secs=None) == (0, 0)
