"""Kills, stops, replaces and cuts off processes of a cluster at random, and checks the training.

    python sync_replicas_chaos.py SECONDS SEED [WORKERS]

Parameter servers and workers are on two hosts, between which the network may be lost, if hosts can
be made here. Prints what was done, as JSON, and fails if a round was not the sum of one gradient
from each slot or the weights are not what the logs say.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support import sync_replicas_processes as processes
from tests.support.clusters import Task
from tests.support.separate_hosts import ADDRESSES, SeparateHosts
from tests.support.sync_replicas_processes import NUM_PS, NUM_WORKERS

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


def main() -> None:
    seconds, seed, *workers = map(float, sys.argv[1:])
    with (
        tempfile.TemporaryDirectory() as folder,
        two_hosts() as hosts,
        Cluster(Path(folder), int(workers[0]) if workers else NUM_WORKERS, hosts) as cluster,
        processes.printing_the_log(cluster),
    ):
        cluster.start(*[who for who in cluster.tasks() if who != ("worker", cluster.spare)])
        cluster.await_steps(20)
        faults = Faults(cluster, hosts, random.Random(int(seed)))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            faults.any()
            cluster.check_running()
        cluster.await_steps(20)
        counts = {**faults.counts, **processes.check(cluster)}
        print(json.dumps({"seed": int(seed), **counts}), flush=True)


if __name__ == "__main__":
    main()
