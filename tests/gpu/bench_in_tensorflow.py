"""A round of gradients from a GPU, averaged by our accumulators and by TensorFlow's own.

usage: python tests/gpu/bench_in_tensorflow.py [--seconds SECONDS]   (for each case; 5)

Each round computes 8 gradients on the GPU, applies them, takes their mean, and updates a variable
on the GPU. Our accumulators are on the GPU or on the CPU. TensorFlow's own have kernels for CPUs
only. All run in one process in turn; each figure is a median over rounds, with the quartiles. The
build is compared with itself too, which shows the noise. Without a GPU, all run on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tf_condacc  # noqa: E402

v1 = tf.compat.v1

NUM_GRADIENTS = 8
NEVER_STALE = 2**62
WARM_UPS = 5
MIN_ROUNDS = 8
CPU = "/CPU:0"
GPU = "/GPU:0" if tf.config.list_physical_devices("GPU") else CPU

# The module and the device of the accumulators.
VARIANTS = {
    "TensorFlow's": (v1, CPU),
    "ours": (tf_condacc, GPU),
    "ours again": (tf_condacc, GPU),
    "ours on the CPU": (tf_condacc, CPU),
}
COMPARISONS = [
    ("ours", "TensorFlow's"),
    ("ours on the CPU", "TensorFlow's"),
    ("ours", "ours on the CPU"),
    ("ours again", "ours"),
]


@dataclass(frozen=True)
class DenseCase:
    size: int

    def __str__(self) -> str:
        return f"dense, {NUM_GRADIENTS} gradients of {self.size} float32"

    def build(self, module: Any, device: str) -> tf.Operation:
        """Returns an operation that runs a round."""
        with tf.device(GPU):
            values = [random_variable(f"g{i}", [self.size]) * 1.5 for i in range(NUM_GRADIENTS)]
            weights = random_variable("w", [self.size])
        with tf.device(device):
            accumulator = module.ConditionalAccumulator(tf.float32, shape=[self.size])
            applies = [accumulator.apply_grad(each, NEVER_STALE) for each in values]
            mean = accumulator.take_grad(NUM_GRADIENTS)
        with tf.device(GPU):
            return tf.group(*applies, weights.assign_sub(0.1 * mean))


@dataclass(frozen=True)
class SparseCase:
    num_rows: int  # Rows of each gradient.
    dense_rows: int
    width: int = 64

    def __str__(self) -> str:
        rows = f"{self.num_rows} of {self.dense_rows} rows"
        return f"sparse, {NUM_GRADIENTS} gradients of {rows} of {self.width} float32"

    def build(self, module: Any, device: str) -> tf.Operation:
        """Returns an operation that runs a round."""
        rng = np.random.default_rng(1)
        shape = [self.dense_rows, self.width]
        with tf.device(GPU):
            gradients = [self._gradient(i, rng) for i in range(NUM_GRADIENTS)]
            weights = random_variable("w", shape)
        with tf.device(device):
            accumulator = module.SparseConditionalAccumulator(tf.float32, shape=shape)
            applies = [accumulator.apply_grad(*each, shape, NEVER_STALE) for each in gradients]
            mean = accumulator.take_indexed_slices_grad(NUM_GRADIENTS)
        with tf.device(GPU):
            return tf.group(*applies, v1.scatter_sub(weights, mean.indices, 0.1 * mean.values))

    def _gradient(self, i: int, rng: np.random.Generator) -> tuple[tf.Tensor, tf.Tensor]:
        rows = rng.integers(0, self.dense_rows, self.num_rows)
        indices = v1.get_variable(f"i{i}", initializer=rows, use_resource=True)
        values = random_variable(f"v{i}", [self.num_rows, self.width])
        return indices + 0, values * 1.5


CASES = [
    *(DenseCase(size) for size in (1000, 1 << 16, 1 << 20, 1 << 24)),
    SparseCase(1000, 100_000),
    SparseCase(10_000, 10**6),
    SparseCase(100_000, 10**6),
]


def random_variable(name: str, shape: list[int]) -> tf.Variable:
    initializer = v1.random_normal_initializer()
    return v1.get_variable(name, shape, initializer=initializer, use_resource=True)


def start(case: DenseCase | SparseCase, module: Any, device: str) -> Callable[[], object]:
    """Returns a function that runs a round, in a session of its own."""
    with tf.Graph().as_default() as graph:
        operation = case.build(module, device)
        # Operations without a kernel for GPUs are placed on the CPU.
        session = v1.Session(graph=graph, config=v1.ConfigProto(allow_soft_placement=True))
        session.run(v1.global_variables_initializer())
        run = session.make_callable(operation)
    for _ in range(WARM_UPS):
        run()
    return run


def measure(case: DenseCase | SparseCase, seconds: float) -> dict[str, list[float]]:
    """Returns the seconds of each round of each variant.

    The variant that ran before determines what is in the caches. So the order changes: in four
    rounds, each variant runs once right after each other one.
    """
    runs = [start(case, *variant) for variant in VARIANTS.values()]
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while len(times[0]) < MIN_ROUNDS or time.perf_counter() < end:
        first = len(times[0])
        for i in (0, 1, 3, 2):
            variant = (first + i) % 4
            begin = time.perf_counter()
            runs[variant]()
            times[variant].append(time.perf_counter() - begin)
    return dict(zip(VARIANTS, times, strict=True))


def show(times: dict[str, list[float]]) -> None:
    for name, its in times.items():
        print(f"    {name:16} {statistics.median(its) * 1e6:12.1f} us")
    for name, other in COMPARISONS:
        ratios = [a / b for a, b in zip(times[name], times[other], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        print(f"    {name} / {other}: {median:.3f} ({low:.3f} to {high:.3f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="for each case")
    arguments = parser.parse_args()
    print(f"GPU: {GPU != CPU}, build: {tf_condacc.build_info()}")
    for case in CASES:
        times = measure(case, arguments.seconds)
        print(f"{case} ({len(times['ours'])} rounds)")
        show(times)


if __name__ == "__main__":
    main()
