"""Options of the connections between the tasks of a cluster."""

from __future__ import annotations

import os

_VARIABLE = "TF_GRPC_DEFAULT_OPTIONS"  # TensorFlow reads it when it opens the first connection.
_OPTIONS = {
    # Otherwise a connection to a task that comes back may be tried after two minutes only.
    "grpc.max_reconnect_backoff_ms": 1000,
    # Otherwise a connection outlives a loss of the network, and goes on at TCP's next attempt to
    # send again, up to a minute after the network is back. gRPC sends few such pings while nothing
    # else is sent, so that a long wait does not exceed the number that servers accept.
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
}


def set_grpc_options() -> None:
    """Adds the options to those of the environment, which take precedence."""
    given = [option for option in os.environ.get(_VARIABLE, "").split(",") if option]
    names = {option.partition("=")[0] for option in given}
    added = [f"{name}={value}" for name, value in _OPTIONS.items() if name not in names]
    os.environ[_VARIABLE] = ",".join([*given, *added])
