"""Peak memory of an accumulator, in a process of its own.

Run as a program, ``python -m condacc_bench.cases.memory`` with the arguments IMPLEMENTATION KIND
SIZE N NUM_ROWS COLUMNS prints the peak memory of cycles 1, 2, 3 and 8 in bytes, each beyond the
memory before the first, and what the process holds after the last.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[2]
_DECIMALS = 2
# In the last of these rounds, the accumulator has known the size of its result for several rounds,
# and allocators no longer grow.
_ROUNDS = (1, 2, 3, 8)
_MEASURED = (*(f"peak {number}" for number in _ROUNDS), "left")


class PeakMemory:
    """The peak memory of cycles 1, 2, 3 and 8 as multiples of a unit: ``peak 1, UNITS`` and so on.

    ``left, UNITS`` is what the process holds after them.

    The gradients themselves are included; they are made one at a time.

    Args:
      name: Name of the implementation.
      kind: "dense" or "sparse".
      size: Elements of a dense gradient, or rows of a sparse one.
      count: Number of gradients in a cycle.
      shape: Shape of the variable, for sparse gradients.
      units: Name of the unit, in the plural.
      unit_bytes: Bytes of the unit.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        size: int,
        count: int,
        shape: tuple[int, int],
        units: str,
        unit_bytes: int,
    ):
        self._arguments = [name, kind, *map(str, (size, count, *shape))]
        self._units, self._unit_bytes = units, unit_bytes

    def measure(self) -> dict[str, float]:
        child = subprocess.run(
            [sys.executable, "-m", "condacc_bench.cases.memory", *self._arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_FOLDER), *sys.path])},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return {
            f"{what}, {self._units}": round(int(num_bytes) / self._unit_bytes, _DECIMALS)
            for what, num_bytes in zip(_MEASURED, child.stdout.split(), strict=True)
        }

    def close(self) -> None:
        """Does nothing, because the process has ended."""


def _main(name: str, kind: str, *numbers: str) -> None:
    from condacc_bench import implementations
    from condacc_bench.cases import sparse_data
    from condacc_bench.cases.dense_cycle import DenseCycle
    from condacc_bench.cases.sparse_cycle import SparseCycle

    size, count, num_rows, columns = map(int, numbers)
    if name == "condacc":
        implementation = implementations.condacc()
    else:
        implementation = implementations.tensorflow()
    # The mean is not checked yet, because the cycle could reuse the memory of the check.
    options = {"max_step_bytes": 0, "check": False}
    if kind == "dense":
        case = DenseCycle(implementation, count, size, producer="mul", **options)
        apply_all = case.apply_all
    else:
        gradients = sparse_data.uniform(num_rows, size, count)
        case = SparseCycle(implementation, gradients, (num_rows, columns), **options)
        apply_all = case.apply_each
    gc.collect()
    before = status_bytes("VmRSS")
    peaks = []
    for number in range(1, _ROUNDS[-1] + 1):
        reset_peak()
        apply_all()
        case.take()
        if number in _ROUNDS:
            peaks.append(status_bytes("VmHWM") - before)
    left = status_bytes("VmRSS") - before
    case.check_result()
    print(*peaks, left)


def reset_peak() -> None:
    """Makes ``VmHWM`` the present memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def status_bytes(name: str) -> int:
    """Returns a value of ``/proc/self/status`` in bytes, such as ``VmRSS``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise KeyError(name)


if __name__ == "__main__":
    _main(*sys.argv[1:])
