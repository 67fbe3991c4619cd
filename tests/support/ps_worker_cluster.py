"""A cluster of a parameter server and a worker in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

from tests.support.ports import free_ports

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Starts a ps and a worker; returns the targets of the worker and of the ps."""
    ps_port, worker_port = free_ports(2)
    spec = v1.train.ClusterSpec(
        {"ps": [f"localhost:{ps_port}"], "worker": [f"localhost:{worker_port}"]}
    )
    ps = v1.train.Server(spec, job_name="ps", task_index=0)
    worker = v1.train.Server(spec, job_name="worker", task_index=0)
    yield {"worker": worker.target, "ps": ps.target}
