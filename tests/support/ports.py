"""Ports for servers that tests start."""

from __future__ import annotations

import errno
import itertools
import os
import socket

# Each process of pytest-xdist has a range of its own. All lie below the range from which the system
# takes the ports of clients, so nobody else takes a port between here and the start of a server.
_FIRST = 10_000
_NUM_RANGES = 10
_NUM_PORTS = 2_000
_tried = itertools.count(31 * os.getpid())


def free_ports(count: int) -> list[int]:
    """Returns ports on which nobody listens, each of them once."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _NUM_RANGES
    ports: list[int] = []
    for _ in range(_NUM_PORTS):
        port = _FIRST + worker * _NUM_PORTS + next(_tried) % _NUM_PORTS
        if _is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"{count} ports are not free from {_FIRST + worker * _NUM_PORTS} on")


def free_cluster(num_ps: int, num_workers: int) -> dict[str, list[str]]:
    """Returns the addresses of a cluster's parameter servers and workers, by job."""
    addresses = [f"localhost:{port}" for port in free_ports(num_ps + num_workers)]
    return {"ps": addresses[:num_ps], "worker": addresses[num_ps:]}


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("localhost", port)).close()
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise OSError(f"no server can listen on localhost: {error}") from error
        return False
    return True
