"""Ports for servers on this machine."""

from __future__ import annotations

import contextlib
import random
import socket


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
