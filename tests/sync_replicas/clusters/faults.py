"""Faults of random processes of a cluster, and of the network between its hosts."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Callable
from typing import Any

from tests.processes.clusters import Task
from tests.processes.separate_hosts import SeparateHosts
from tests.support.waiting import work
from tests.sync_replicas.clusters.processes import NUM_PS, Cluster

TAKEOVER_SECS = 0.3


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
        names = ("kills", "stops", "chiefs", "servers", "replaced", "new workers", "partitions")
        self.counts = dict.fromkeys(names, 0)

    def each_once(self) -> None:
        """Makes a fault of each kind, in random order, except that no live chief is replaced."""
        chief = ("worker", self._cluster.chief)
        kinds: list[Callable[[], None]] = [
            lambda: self.kill(self._worker()),
            lambda: self.stop(self._worker()),
            self.replace_worker,
            lambda: self.kill(chief),
            lambda: self.stop(chief),
            *(lambda server=server: self.kill(("ps", server)) for server in range(NUM_PS)),
            *([self.partition] if self._hosts is not None else []),
        ]
        self._chance.shuffle(kinds)
        for make in kinds:
            self._pause(0.4)
            make()
            self._cluster.check_running()

    def any(self) -> None:
        """Makes a random fault."""
        self._make_any()
        self._cluster.check_running()

    def one(self) -> None:
        """Makes the fault that takes the least time."""
        self.kill(self._worker())

    def _make_any(self) -> None:
        kind = self._chance.random()
        if kind < 0.04:
            return self.replace_chief()
        if kind < 0.08 and self._hosts is not None:
            return self.partition()
        who = self._worker()
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
        self._note("replaced", f"worker {self._cluster.chief}")
        self._cluster.freeze(("worker", self._cluster.chief))
        self._cluster.replace_frozen_chief()

    def replace_worker(self) -> None:
        """Freezes a worker, starts another one, and kills the old one after it has gone on."""
        old, new = self._worker(), ("worker", self._cluster.spare)
        self._note("new workers", f"{old[0]} {old[1]}")
        self._cluster.freeze(old)
        self._cluster.spare = old[1]
        self._cluster.start(new)
        self._cluster.await_steps(5, new[1])
        self._cluster.unfreeze(old)
        self._pause(0.4)
        self._cluster.kill(old)

    def partition(self) -> None:
        self._note("partitions", "hosts")
        lost = self._chance.choice([(0, 1), (0,), (1,)])
        with self._hosts.partition(*lost):
            self._pause(3)
        self._cluster.await_steps(5)

    def _worker(self) -> Task:
        """Returns a worker that is not the chief."""
        return "worker", self._chance.choice(self._cluster.workers()[1:])

    def _note(self, kind: str, what: str) -> None:
        self._log.add(kind, who=what)
        self.counts[kind] += 1

    def _pause(self, longest_secs: float) -> None:
        work(self._chance.random() * longest_secs)


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
