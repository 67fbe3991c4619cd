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
import struct
import threading
import time
from collections.abc import Collection

from tf_condacc import _times

# A lost connection is closed only if the data has been retransmitted this many times.
_LOST_RETRANSMITS = 3
# Fields of struct tcp_info: tcpi_retransmits, tcpi_unacked, tcpi_last_ack_recv.
_TCP_INFO = struct.Struct("=2xB21xI28xI")
_OPEN_FILES = "/proc/self/fd"
_GRPC_OPTIONS = "TF_GRPC_DEFAULT_OPTIONS"  # TensorFlow reads it when it opens a connection.
_RECONNECT = "grpc.max_reconnect_backoff_ms"


def reconnect_soon() -> None:
    """Makes gRPC connect again to a task that comes back, within about a second.

    Otherwise it may wait for two minutes. Options that the program sets take precedence.
    """
    given = [option for option in os.environ.get(_GRPC_OPTIONS, "").split(",") if option]
    if _RECONNECT not in (option.partition("=")[0] for option in given):
        os.environ[_GRPC_OPTIONS] = ",".join([*given, f"{_RECONNECT}=1000"])


def close_lost_connections(ports: Collection[int]) -> None:
    """Closes connections of this process to machines that do not answer, whenever there are any.

    A daemon thread looks for connections, because they are gRPC's.

    Args:
        ports: Ports of the tasks of the cluster. Connections from and to others stay as they are.
    """
    threading.Thread(target=_watch, args=(ports,), name="connections", daemon=True).start()


def _watch(ports: Collection[int]) -> None:
    while True:
        with contextlib.suppress(OSError):  # Too many files may be open.
            _check_connections(ports)
        time.sleep(_times.current.connections_secs)


def _check_connections(ports: Collection[int]) -> None:
    for number in os.listdir(_OPEN_FILES):
        with contextlib.suppress(OSError):  # It was just closed, or is not connected.
            is_socket = os.readlink(f"{_OPEN_FILES}/{number}").startswith("socket:")
            if not is_socket or os.get_blocking(int(number)):  # gRPC's sockets do not block.
                continue
            with _duplicate(int(number)) as opened:
                if _is_connection(opened, ports):
                    for option in _options():
                        opened.setsockopt(*option)
                    if _is_lost(opened):
                        opened.shutdown(socket.SHUT_RDWR)


def _options() -> tuple[tuple[int, int, int], ...]:
    """Options with which the kernel closes an idle connection to a machine that does not answer."""
    secs = _times.current.lost_connection_secs
    return (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, secs // 2),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, secs // 4),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2),
    )


def _duplicate(number: int) -> socket.socket:
    """Returns a socket with its own file descriptor. Raises OSError if it is not a socket."""
    duplicate = os.dup(number)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)
        raise


def _is_connection(opened: socket.socket, ports: Collection[int]) -> bool:
    """Returns whether a socket is a connection whose own port or other port is one of these.

    Raises:
        OSError: The socket is not connected.
    """
    is_tcp = opened.family in (socket.AF_INET, socket.AF_INET6)
    if not is_tcp or opened.type != socket.SOCK_STREAM:
        return False
    return any(end[1] in ports for end in (opened.getsockname(), opened.getpeername()))


def _is_lost(connection: socket.socket) -> bool:
    """Returns whether data sent to the other machine has been unacknowledged for too long.

    A frozen process does not read, but its machine acknowledges what fits into its buffer, and then
    nothing more is sent. The option TCP_USER_TIMEOUT would close such a connection as well.
    """
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    retransmits, unacknowledged, silent_msecs = _TCP_INFO.unpack(info)
    is_waiting = unacknowledged > 0 and retransmits >= _LOST_RETRANSMITS
    return is_waiting and silent_msecs > 1000 * _times.current.lost_connection_secs
