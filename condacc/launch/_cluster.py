"""The tasks of a cluster on this machine, and the TF_CONFIG of each."""

from __future__ import annotations

import errno
import json
import random
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

# The place of the task replaces a field of a command. A field in double braces stays as it is.
_NAME = r"\{(?:job|index|ps|workers|hosts:\w*)\}"
_FIELD = re.compile(rf"\{{(?P<literal>{_NAME})\}}|(?P<field>{_NAME})")
_JOBS = ("ps", "worker")
_COORDINATOR = "chief"


@dataclass(frozen=True)
class Place:
    """The place of a task in the cluster.

    Attributes:
        job: "ps", "worker" or, for the coordinator of parameter servers of TensorFlow 2, "chief".
        index: The index in the job.
        address: The host and the port of the server.
        job_name: The value of ``{job}`` in the command.
        is_server: Whether the task serves until the training is over: a parameter server, or a
            worker that a coordinator gives its work.
    """

    job: str
    index: int
    address: str
    job_name: str
    is_server: bool

    def __str__(self) -> str:
        return f"{self.job} {self.index}"

    @property
    def is_essential(self) -> bool:
        """Whether no worker can train without this task: a parameter server or the chief."""
        return self.job != "worker" or (self.index == 0 and not self.is_server)


def local_cluster(
    num_ps: int,
    num_workers: int,
    ports: Sequence[int] = (),
    job_names: Sequence[str] = _JOBS,
    has_coordinator: bool = False,
) -> list[Place]:
    """Returns the places of a cluster whose servers listen on ports of this machine.

    Args:
        num_ps: Number of parameter servers.
        num_workers: Number of workers.
        ports: The ports of the parameter servers, of the workers, and of the coordinator; by
            default, free ones.
        job_names: What ``{job}`` becomes for a parameter server and for a worker.
        has_coordinator: Whether there is a coordinator, for which all workers are servers.

    Raises:
        ValueError: There are not as many ports as tasks, or a port is twice among them.
        OSError: Something listens on one of `ports` already, or no server can listen at all.
    """
    jobs = [("ps", index) for index in range(num_ps)]
    jobs += [("worker", index) for index in range(num_workers)]
    jobs += [(_COORDINATOR, 0)] if has_coordinator else []
    names = {**dict(zip(_JOBS, job_names, strict=True)), _COORDINATOR: _COORDINATOR}
    servers = _JOBS if has_coordinator else _JOBS[:1]
    if ports:
        _check_ports(ports, len(jobs))
    return [
        Place(job, index, f"localhost:{port}", names[job], job in servers)
        for (job, index), port in zip(jobs, ports or free_ports(len(jobs)), strict=True)
    ]


def _check_ports(ports: Sequence[int], count: int) -> None:
    if len(ports) != count or len(set(ports)) != count:
        raise ValueError(
            f"expected {count} different ports, of the parameter servers, the workers and then the "
            f"coordinator, if there is one, got {', '.join(map(str, ports))}"
        )
    for port in ports:
        try:
            socket.create_server(("localhost", port)).close()
        except OSError as error:
            raise OSError(f"port {port}: {error}") from error


def free_ports(count: int) -> list[int]:
    """Returns different ports on which nobody listens.

    They lie below those that the system gives to outgoing connections, so that they are still free
    when a server that takes its time listens on them.

    Raises:
        OSError: No server can listen on ``localhost``, for example because it has no address.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_768)
        try:
            socket.create_server(("localhost", port)).close()
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise OSError(f"no server can listen on localhost: {error}") from error
        else:
            ports.add(port)
    return list(ports)


def tf_config(cluster: Sequence[Place], place: Place) -> str:
    """Returns the value of the environment variable TF_CONFIG for one task of a cluster."""
    addresses: dict[str, list[str]] = {}
    for each in cluster:
        addresses.setdefault(each.job, []).append(each.address)
    return json.dumps({"cluster": addresses, "task": {"type": place.job, "index": place.index}})


def filled(command: Sequence[str], cluster: Sequence[Place], place: Place) -> list[str]:
    """Returns the command of one task, with its place in the cluster filled in.

    ``{job}`` and ``{index}`` become the name of the job and the index of the task; ``{ps}``,
    ``{workers}`` and ``{hosts:JOB}`` the addresses of a job, with commas between them. ``{{job}}``
    becomes ``{job}``, and all other braces stay.

    Raises:
        ValueError: The command asks for the hosts of a job that there is not.
    """

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return match["literal"]
        field = match["field"][1:-1]
        own = {"job": place.job_name, "index": str(place.index)}
        if field in own:
            return own[field]
        job = {"ps": "ps", "workers": "worker"}.get(field, field.partition(":")[2])
        jobs = dict.fromkeys((*_JOBS, *(each.job for each in cluster)))
        if job not in jobs:
            raise ValueError(f"{{{field}}}: there is no job {job!r}, only {' and '.join(jobs)}")
        return ",".join(each.address for each in cluster if each.job == job)

    return [_FIELD.sub(value, argument) for argument in command]
