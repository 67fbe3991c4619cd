"""The order in which workers of different speed finish their gradients."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

_JITTER = (0.5, 1.5)


def times_as_long(worker: int) -> int:
    """How slow a worker is: 1, 2, 4, 8 and so on times the first one's time for a gradient."""
    return 2**worker


def finishes(num_workers: int, seed: int) -> Iterator[int]:
    """Yields without end the worker that is the next to finish.

    A gradient takes a worker between half and one and a half times what it takes on average.
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
