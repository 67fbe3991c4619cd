"""The order in which workers of different speed finish their gradients."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

_JITTER = (0.5, 1.5)


def times_as_long(worker: int) -> int:
    """Returns a worker's average time for a gradient, in units of the first worker's: 1, 2, 4, …"""
    return 2**worker


def finishes(num_workers: int, seed: int) -> Iterator[int]:
    """Yields without end the index of the worker that finishes next.

    The time for a gradient varies between half and one and a half times the worker's average.

    Args:
        num_workers: Number of workers.
        seed: Seed of the random times.
    """
    rng = np.random.default_rng(seed)

    def duration(worker: int) -> float:
        return times_as_long(worker) * rng.uniform(*_JITTER)

    due = [(duration(worker), worker) for worker in range(num_workers)]
    heapq.heapify(due)
    while True:
        now, worker = due[0]
        yield worker
        heapq.heapreplace(due, (now + duration(worker), worker))
