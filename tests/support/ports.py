"""Ports for servers that tests start."""

from __future__ import annotations

from condacc.launch._cluster import free_ports

__all__ = ["free_cluster", "free_ports"]


def free_cluster(num_ps: int, num_workers: int) -> dict[str, list[str]]:
    """Returns the addresses of a cluster's parameter servers and workers, by job."""
    addresses = [f"localhost:{port}" for port in free_ports(num_ps + num_workers)]
    return {"ps": addresses[:num_ps], "worker": addresses[num_ps:]}
