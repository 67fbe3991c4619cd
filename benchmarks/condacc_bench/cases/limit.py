"""The machine's limits: one native pass over existing gradients."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from condacc_bench.cases.dense_cycle import num_repetitions
from condacc_bench.rounds import seconds_for

_SOURCE = Path(__file__).with_name("limit.cc")
_MAX_BYTES = 2 << 30


def compiler() -> str | None:
    """Returns the C++ compiler that `Limit` needs, or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


class Limit:
    """Sums ``count`` gradients of ``size`` elements into one of them and scales it.

    If the gradients take more than two gibibytes, they are added in groups that carry the sum on,
    as `DenseCycle` produces them. The result is the faster of one thread and all cores.
    """

    def __init__(self, count: int, size: int):
        self._library = _library()
        self._size = size
        self._scale = 1 / count
        self._repetitions = num_repetitions(size, count)
        group = max(2, min(count, _MAX_BYTES // (size * 4)))
        # Writing makes the system give each array its own memory, instead of one page of zeros.
        self._gradients = [np.ones(size, np.float32) for _ in range(group)]
        others = [gradient.ctypes.data for gradient in self._gradients[1:]]
        self._others = (ctypes.c_void_p * len(others))(*others)
        self._passes = _passes(count - 1, group - 1)
        self._thread_counts = {1, os.cpu_count() or 1} if size >= 1 << 20 else {1}

    def measure(self) -> dict[str, float]:
        return {
            "cycle": min(
                statistics.median(self._seconds(threads) for _ in range(self._repetitions))
                for threads in self._thread_counts
            )
        }

    def _seconds(self, num_threads: int) -> float:
        # After this, a gradient is as fresh in the caches as a staged one.
        for gradient in self._gradients:
            gradient.fill(1)
        return sum(
            seconds_for(lambda n=n, last=last: self._sum(n, last, num_threads))
            for n, last in self._passes
        )

    def _sum(self, num_others: int, last: bool, num_threads: int) -> None:
        self._library.condacc_limit_pass(
            ctypes.c_void_p(self._gradients[0].ctypes.data),
            self._others,
            num_others,
            ctypes.c_size_t(self._size),
            ctypes.c_float(self._scale if last else 1),
            num_threads,
        )

    @property
    def mean(self) -> np.ndarray:
        """Returns the mean of the last measurement; every gradient consists of ones."""
        return self._gradients[0]

    def close(self) -> None:
        self._gradients.clear()


class SparseLimit:
    """Reads the values of ``count`` gradients of ``size`` elements, and writes ``out_size``.

    A merge must do so at least. If the gradients take more than two gibibytes, some of them are
    read several times. The result is the faster of one thread and all cores.
    """

    def __init__(self, count: int, size: int, out_size: int):
        self._library = _library()
        num_arrays = max(1, min(count, _MAX_BYTES // (size * 4)))
        self._gradients = [np.ones(size, np.float32) for _ in range(num_arrays)]
        addresses = [self._gradients[i % num_arrays].ctypes.data for i in range(count)]
        self._addresses = (ctypes.c_void_p * count)(*addresses)
        self._count, self._size = count, size
        self._out = np.ones(out_size // 4 * 4, np.float32)

    def measure(self) -> dict[str, float]:
        return {"cycle": min(self._seconds(threads) for threads in {1, os.cpu_count() or 1})}

    def _seconds(self, num_threads: int) -> float:
        return seconds_for(
            lambda: self._library.condacc_limit_sparse(
                ctypes.c_void_p(self._out.ctypes.data),
                ctypes.c_size_t(self._out.size),
                self._addresses,
                self._count,
                ctypes.c_size_t(self._size),
                num_threads,
            )
        )

    def close(self) -> None:
        self._gradients.clear()


def _passes(num_others: int, most: int) -> list[tuple[int, bool]]:
    """Returns the number of gradients that each pass adds, and whether it is the last pass."""
    counts = [min(most, num_others - done) for done in range(0, num_others, most)]
    return [(n, i == len(counts) - 1) for i, n in enumerate(counts)]


@functools.cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "limit.so"
        options = ["-O3", "-march=native", "-std=c++17", "-pthread", "-shared", "-fPIC"]
        subprocess.run([compiler(), *options, str(_SOURCE), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))
