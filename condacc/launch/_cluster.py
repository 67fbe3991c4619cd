"""The tasks of a cluster on this machine, and the TF_CONFIG of each."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The place of a task in the cluster."""

    job: str
    index: int
    address: str

    def __str__(self) -> str:
        return f"{self.job} {self.index}"

    @property
    def is_server(self) -> bool:
        """Whether the task is a parameter server."""
        return self.job == "ps"

    @property
    def is_essential(self) -> bool:
        """Whether no worker can train without this task: a parameter server or the chief."""
        return self.is_server or self.index == 0


def local_cluster(num_ps: int, num_workers: int) -> list[Place]:
    """Returns the places of a cluster whose servers listen on free ports of this machine."""
    jobs = [("ps", index) for index in range(num_ps)]
    jobs += [("worker", index) for index in range(num_workers)]
    ports = free_ports(len(jobs))
    return [
        Place(job, index, f"localhost:{port}")
        for (job, index), port in zip(jobs, ports, strict=True)
    ]


def free_ports(count: int) -> list[int]:
    """Returns different ports on which nobody listens.

    They lie below those that the system gives to outgoing connections, so that they are still free
    when a server that takes its time listens on them.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.create_server(("localhost", port)):
            ports.add(port)
    return list(ports)


def tf_config(cluster: Sequence[Place], place: Place) -> str:
    """Returns the value of the environment variable TF_CONFIG for one task of a cluster."""
    addresses: dict[str, list[str]] = {}
    for each in cluster:
        addresses.setdefault(each.job, []).append(each.address)
    return json.dumps({"cluster": addresses, "task": {"type": place.job, "index": place.index}})
