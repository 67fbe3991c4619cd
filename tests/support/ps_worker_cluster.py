"""A cluster of a parameter server and a worker, in this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import tensorflow as tf

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Two servers, a ps and a worker; returns the worker's and the ps's targets."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    spec = tf1.train.ClusterSpec(
        {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]}
    )
    ps = tf1.train.Server(spec, job_name="ps", task_index=0)
    worker = tf1.train.Server(spec, job_name="worker", task_index=0)
    yield {"worker": worker.target, "ps": ps.target}
