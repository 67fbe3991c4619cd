"""How the cost of an apply grows with what is accumulated already."""

from __future__ import annotations

import numpy as np

from condacc_bench.implementations import Implementation
from condacc_bench.sparse_cycle import SparseCycle


class SparseGrowth:
    """Sparse applies one after another, each a step of its own, and a take.

    Metrics: seconds of each apply, as ``apply 1``, ``apply 2`` and so on, and of ``all`` of them
    with the ``take``; how many times as long as the second one the last took (``growth``), and the
    second half of them as long as the first half (``growth of halves``: 1 if all cost the same, 3
    if the cost grows with k), which also counts what is done only now and then.
    """

    def __init__(
        self, implementation: Implementation, gradients: np.ndarray, shape: tuple[int, int]
    ):
        self._cycle = SparseCycle(implementation, gradients, shape, max_step_bytes=0)

    def measure(self) -> dict[str, float]:
        applies = self._cycle.apply_each()
        take = self._cycle.take()
        half = len(applies) // 2
        return {f"apply {k}": seconds for k, seconds in enumerate(applies, start=1)} | {
            "growth": applies[-1] / applies[1],
            "growth of halves": sum(applies[half:]) / sum(applies[:half]),
            "take": take,
            "all": sum(applies) + take,
        }

    def close(self) -> None:
        self._cycle.close()
