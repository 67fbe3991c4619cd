"""Connections between the tasks of a cluster, when a task or the network is lost for a while.

TCP sends again what was not received, at intervals that double up to two minutes. So when a
network is back after a minute, a connection may stand still for almost another minute.

gRPC's keepalive would close it before. But its servers accept only a few pings while a step waits:
after some minutes, the fourth one ends the step with "Too many pings". The keepalive of TCP has no
such limit, and the kernel answers it for a process that is frozen.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Collection

_INTERVAL_SECS = 5.0
_LOST_SECS = 20  # A connection is closed if the other machine has not answered for so long.
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _LOST_SECS // 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _LOST_SECS // 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _LOST_SECS),
)
_OPEN_FILES = "/proc/self/fd"
_GRPC_OPTIONS = "TF_GRPC_DEFAULT_OPTIONS"  # TensorFlow reads it when it opens a connection.
_RECONNECT = "grpc.max_reconnect_backoff_ms"


def reconnect_soon() -> None:
    """Makes gRPC connect again to a task that comes back, within about a second.

    It may wait for two minutes otherwise. Options of the program's own take precedence.
    """
    given = [option for option in os.environ.get(_GRPC_OPTIONS, "").split(",") if option]
    if _RECONNECT not in (option.partition("=")[0] for option in given):
        os.environ[_GRPC_OPTIONS] = ",".join([*given, f"{_RECONNECT}=1000"])


def close_lost_connections(ports: Collection[int]) -> None:
    """Makes the kernel close connections of this process to machines that do not answer.

    A daemon thread looks for new connections, because they are gRPC's, which has no option for it.

    Args:
        ports: Ports of the tasks of the cluster. Connections from and to others stay as they are.
    """
    threading.Thread(target=_watch, args=(ports,), name="connections", daemon=True).start()


def _watch(ports: Collection[int]) -> None:
    known: set[str] = set()
    while True:
        known = _set_options(ports, known)
        time.sleep(_INTERVAL_SECS)


def _set_options(ports: Collection[int], known: Collection[str]) -> set[str]:
    """Sets the options of the sockets that are not known. Returns the names of all sockets."""
    names = set()
    for number in os.listdir(_OPEN_FILES):
        with contextlib.suppress(OSError):  # It has been closed meanwhile.
            name = os.readlink(f"{_OPEN_FILES}/{number}")
            is_new = name.startswith("socket:") and name not in known
            if is_new and not os.get_blocking(int(number)):  # Those of gRPC do not block.
                with socket.socket(fileno=os.dup(int(number))) as opened:
                    if _is_connection(opened, ports):
                        for option in _OPTIONS:
                            opened.setsockopt(*option)
            names.add(name)
    return names


def _is_connection(opened: socket.socket, ports: Collection[int]) -> bool:
    """Returns whether a socket is a connection whose own port or other port is one of these.

    Raises:
        OSError: The socket is not connected.
    """
    if opened.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    ends = opened.getsockname(), opened.getpeername()
    return opened.type == socket.SOCK_STREAM and any(end[1] in ports for end in ends)
