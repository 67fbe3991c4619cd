"""Asks a TensorFlow server whether it answers.

A process that is frozen keeps its connections open, and the operating system accepts new ones for
it. So neither a connection nor gRPC's keepalive tells that it is frozen. A request without an
answer does.
"""

from __future__ import annotations

import enum
import socket

# The first bytes of an HTTP/2 client, and its settings, of which there are none. A gRPC server
# answers them with its own settings before it knows what the client wants.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_NO_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class Answer(enum.Enum):
    """The result of a request to a server.

    Attributes:
        ANSWERED: The server works.
        SILENT: There was no answer within the time limit, or the network reported an error. The
            process is frozen, or its machine cannot be reached.
        REFUSED: Nobody listens. The process has not started its server yet, or has ended.
        UNRESOLVED: The host name is not known here.
    """

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"
    UNRESOLVED = "unresolved"


def probe(address: str, timeout_secs: float) -> Answer:
    """Sends a request to a gRPC server, and waits for its answer.

    Args:
        address: Host and port: "host:port".
        timeout_secs: Time limit for the connection, and for the answer. The system's own limits
            apply while the host name is looked up.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_secs) as connection:
            connection.sendall(_PREFACE + _NO_SETTINGS)
            return Answer.ANSWERED if connection.recv(1) else Answer.REFUSED
    except (ConnectionError, EOFError):
        return Answer.REFUSED
    except (socket.gaierror, UnicodeError):  # A name with an empty label, such as "a..b".
        return Answer.UNRESOLVED
    except OSError:  # A time-out among others.
        return Answer.SILENT
