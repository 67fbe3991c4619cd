"""Cases that run with a build of tf_condacc in any folder, in a process of its own.

Two builds register the same operations, so they cannot share a process. Each has a process that
makes, measures and closes cases when it is told to, and is idle otherwise. This module is also the
program of that process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from condacc_bench.report.goals import KI, MI

if TYPE_CHECKING:
    from condacc_bench.implementations import Implementation
    from condacc_bench.rounds import Case

NUM_ROWS, COLUMNS = MI, 64
_ONE_APPLY = re.compile(r"apply \d+$")

# The scenarios by name, with the arguments of their cases. The last number of a sparse case is the
# number of gradients in a cycle.
CASES: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "D1 64K N=4": ("dense", (4, 64 * KI, "float32")),
    "D1 64K N=8": ("dense", (8, 64 * KI, "float32")),
    "D1 64K N=32": ("dense", (32, 64 * KI, "float32")),
    "D1 1M N=1": ("dense", (1, MI, "float32")),
    "D1 1M N=8": ("dense", (8, MI, "float32")),
    "D1 16M N=8": ("dense", (8, 16 * MI, "float32")),
    "D2 200 of 64 shared": ("variables", (200, 64, "shared")),
    "D2 200 of 4K shared": ("variables", (200, 4 * KI, "shared")),
    "D2 200 of 4K mul": ("variables", (200, 4 * KI, "mul")),
    "D3 4 threads 1M shared": ("threads", (4, MI, "shared")),
    "D3 4 threads 16M mul": ("threads", (4, 16 * MI, "mul")),
    "D4 16M N=8 float16": ("dense", (8, 16 * MI, "float16")),
    "D4 16M N=8 bfloat16": ("dense", (8, 16 * MI, "bfloat16")),
    "D4 16M N=8 float64": ("dense", (8, 16 * MI, "float64")),
    "S1 1Kx64 N=8": ("uniform", (1_000, 8)),
    "S1 1Kx64 N=32": ("uniform", (1_000, 32)),
    "S1 10Kx64 N=8": ("uniform", (10_000, 8)),
    "S1 10Kx64 N=32": ("uniform", (10_000, 32)),
    "S1 100Kx64 N=8": ("uniform", (100_000, 8)),
    "S1 10Kx64 N=32 borrowed": ("uniform", (10_000, 32, True)),
    "S1 100Kx64 N=8 borrowed": ("uniform", (100_000, 8, True)),
    "S1 100Kx64 N=32 drifting": ("drifting", (100_000, 32)),
    "SZ 10Kx64 N=8": ("power_law", (10_000, 8)),
    "SZ 100Kx64 N=8": ("power_law", (100_000, 8)),
    "S2 10Kx64 N=32": ("growth", (10_000, 32)),
    "M dense 16M N=32": ("peak", ("dense", 16 * MI, 32, 4 * 16 * MI)),
    "M sparse 100Kx64 N=32": ("peak", ("sparse", 100_000, 32, 4 * 64 * 100_000)),
    "R 1 ps 3 x 4": ("cluster", (1, 2, 3, 4, 100)),
    "R 2 ps 3 x 4": ("cluster", (2, 2, 3, 4, 100)),
    "R 1 ps 4 x 640K": ("cluster", (1, 2, 4, 640 * KI, 20)),
    "R 2 ps 4 x 640K": ("cluster", (2, 2, 4, 640 * KI, 20)),
}


class OtherBuild:
    """The process that runs cases with the build in ``folder``, which contains ``tf_condacc``.

    It imports nothing else from there, because a folder of installed packages may have another
    TensorFlow. Libraries in the cache of the user do not count.
    """

    def __init__(self, folder: Path) -> None:
        here = Path(__file__).resolve()
        self._packages = tempfile.TemporaryDirectory()
        place = Path(self._packages.name)
        for name in ("tf_condacc", "condacc"):
            if (folder / name).is_dir():
                (place / name).symlink_to((folder / name).resolve())
        # The last one has `tests.support`, with which clusters take free ports.
        path = os.pathsep.join(map(str, (place, here.parents[1], here.parents[2])))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "condacc_bench.other_build", str(folder.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=place,  # With -m, Python looks for modules here first.
            env=os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(place / "caches")},
        )

    def case(self, name: str) -> OtherCase:
        """Makes a case of `CASES`."""
        self.ask("make", name)
        return OtherCase(self, name)

    def ask(self, request: str, name: str) -> dict[str, float]:
        """Sends a request and waits for its reply: the metrics of a measurement."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([request, name]), file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"the process has ended, with status {self._process.wait()}")
        return json.loads(reply)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._packages.cleanup()


@dataclasses.dataclass(frozen=True)
class OtherCase:
    """A case in the process of another build."""

    build: OtherBuild
    name: str

    def measure(self) -> dict[str, float]:
        return self.build.ask("measure", self.name)

    def close(self) -> None:
        self.build.ask("close", self.name)


def main() -> None:
    """Serves requests until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent process.
    # TensorFlow's own output must not get between the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _serve(_implementation(Path(sys.argv[1])), replies)


def _serve(implementation: Implementation, replies: TextIO) -> None:
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        request, name = json.loads(line)
        metrics: dict[str, float] = {}
        if request == "make":
            kind, arguments = CASES[name]
            cases[name] = _makers()[kind](implementation, *arguments)
        elif request == "measure":
            # A line for each apply of a growing sum would be too many. Other metrics include them.
            measured = cases[name].measure()
            metrics = {each: measured[each] for each in measured if not _ONE_APPLY.match(each)}
        else:
            cases.pop(name).close()
        print(json.dumps(metrics), file=replies, flush=True)


def _implementation(folder: Path) -> Implementation:
    """Returns the classes of the build. Older builds have the accumulators only."""
    from condacc_bench import quiet

    with quiet.without_log():
        import tf_condacc
    from condacc_bench import implementations

    if Path(tf_condacc.__file__).resolve().parents[1] != folder.resolve():
        raise SystemExit(f"tf_condacc comes from {tf_condacc.__file__}, not from {folder}")
    return dataclasses.replace(
        implementations.tensorflow("condacc"),
        dense=tf_condacc.ConditionalAccumulator,
        sparse=tf_condacc.SparseConditionalAccumulator,
        takes_any_rows=True,
        sync_replicas=getattr(tf_condacc, "SyncReplicasOptimizer", None),
    )


def _makers() -> dict[str, Callable[..., Case]]:
    """Returns the functions that make the cases, by the kinds in `CASES`."""
    import tensorflow as tf

    from condacc_bench.cases import sparse_data
    from condacc_bench.cases.contention import Contention
    from condacc_bench.cases.dense_cycle import DenseCycle
    from condacc_bench.cases.many_variables import ManyVariables
    from condacc_bench.cases.memory import PeakMemory
    from condacc_bench.cases.replica_cluster import ReplicaCluster
    from condacc_bench.cases.sparse_cycle import SparseCycle
    from condacc_bench.cases.sparse_growth import SparseGrowth
    from condacc_bench.scales import ClusterModel

    def dense(who: Implementation, count: int, size: int, dtype: str) -> Case:
        return DenseCycle(who, count, size, tf.dtypes.as_dtype(dtype))

    def uniform(who: Implementation, rows: int, count: int, borrowed: bool = False) -> Case:
        gradients = sparse_data.uniform(NUM_ROWS, rows, count)
        return SparseCycle(who, gradients, (NUM_ROWS, COLUMNS), borrowed=borrowed)

    def drifting(who: Implementation, rows: int, count: int) -> Case:
        gradients = sparse_data.drifting(NUM_ROWS, rows, count)
        return SparseCycle(who, gradients, (NUM_ROWS, COLUMNS))

    def power_law(who: Implementation, rows: int, count: int) -> Case:
        gradients = sparse_data.power_law(NUM_ROWS, rows, count)
        return SparseCycle(who, gradients, (NUM_ROWS, COLUMNS), raw=True)

    def growth(who: Implementation, rows: int, count: int) -> Case:
        gradients = sparse_data.uniform(NUM_ROWS, rows, count)
        return SparseGrowth(who, gradients, (NUM_ROWS, COLUMNS))

    def peak(_: Implementation, kind: str, size: int, count: int, unit_bytes: int) -> Case:
        shape = (NUM_ROWS, COLUMNS)
        return PeakMemory("condacc", kind, size, count, shape, "gradients", unit_bytes)

    def cluster(who: Implementation, *model: int) -> Case:
        return ReplicaCluster([who], ClusterModel(*model)).case(who)

    return {
        "dense": dense,
        "variables": ManyVariables,
        "threads": Contention,
        "uniform": uniform,
        "drifting": drifting,
        "power_law": power_law,
        "growth": growth,
        "peak": peak,
        "cluster": cluster,
    }


if __name__ == "__main__":
    main()
