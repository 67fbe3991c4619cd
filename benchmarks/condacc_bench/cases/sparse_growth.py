"""The cost of an apply as a function of the gradients that are accumulated already."""

from __future__ import annotations

import numpy as np

from condacc_bench.cases.sparse_cycle import SparseCycle
from condacc_bench.implementations import Implementation


class SparseGrowth:
    """Consecutive sparse applies, each in a step of its own, and a take.

    Metrics: the seconds of each apply (``apply 1``, ``apply 2`` and so on), of the ``take``, and of
        ``all`` of them together; ``growth``, the time of the last apply divided by that of the
        second; ``slowest apply``; and ``growth of halves``, the time of the second half of the
        applies divided by that of the first half. The latter is 1 if all applies cost the same and
        3 if the cost grows linearly, and includes work that is done only now and then.
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
            "slowest apply": max(applies),
            "take": take,
            "all": sum(applies) + take,
        }

    def close(self) -> None:
        self._cycle.close()
