"""Checks the installed plugin in TensorFlow, in one process, because an emulated one starts slowly.

usage: python plugin_checks.py

Each check is a function whose name says what must hold. The program prints a line for each, and
exits with 1 if one does not hold. It needs nothing but TensorFlow and tf_condacc, so it also runs
on a machine with no clone.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc

_NARROW = (tf.float16, tf.bfloat16)
_DENSE_TYPES = (*_NARROW, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.int32, tf.int64)
_SIZES = (1, 7, 1000, 70001)
_random = np.random.default_rng(1)


def _wide(dtype: tf.DType) -> type:
    """Returns the type of NumPy in which gradients of a type are added."""
    return np.float32 if dtype in _NARROW else dtype.as_numpy_dtype


def _mean(gradients: list[np.ndarray], dtype: tf.DType) -> np.ndarray:
    """Returns the mean of gradients that are added one after another."""
    total = gradients[0].astype(_wide(dtype))
    for gradient in gradients[1:]:
        total = total + gradient.astype(_wide(dtype))
    # The parts of a complex number are divided as real numbers.
    part = {np.complex64: np.float32, np.complex128: np.float64}.get(_wide(dtype), _wide(dtype))
    quotient = total.view(part) / part(len(gradients))
    return quotient.view(_wide(dtype)).astype(dtype.as_numpy_dtype)


def dense_results_have_the_bits_of_numpys_sums() -> None:
    for dtype in _DENSE_TYPES:
        kind = dtype.as_numpy_dtype
        for size in _SIZES:
            gradients = [(_random.standard_normal(size) * 100).astype(kind) for _ in range(5)]
            reduction = "SUM" if dtype.is_integer else "MEAN"
            accumulator = tf_condacc.ConditionalAccumulator(
                dtype, shape=[size], reduction_type=reduction
            )
            for gradient in gradients:
                accumulator.apply_grad(tf.constant(gradient))
            taken = accumulator.take_grad(5).numpy()
            wanted = sum(gradients) if dtype.is_integer else _mean(gradients, dtype)
            assert taken.tobytes() == wanted.tobytes(), (dtype, size)


def sparse_results_are_exact() -> None:
    for dtype in (*_NARROW, tf.float32, tf.float64):
        for width in (1, 3, 8, 64):
            accumulator = tf_condacc.SparseConditionalAccumulator(
                dtype, shape=[1000, width], reduction_type="SUM"
            )
            wanted = np.zeros((1000, width), _wide(dtype))
            for _ in range(6):
                rows = _random.integers(0, 1000, 300)  # Some are there several times.
                values = _random.integers(-8, 8, (300, width)).astype(dtype.as_numpy_dtype)
                accumulator.apply_grad(tf.constant(rows), tf.constant(values), [1000, width])
                np.add.at(wanted, rows, values.astype(wanted.dtype))
            taken = accumulator.take_indexed_slices_grad(6)
            result = np.zeros_like(wanted)
            result[taken.indices.numpy()] = taken.values.numpy().astype(wanted.dtype)
            assert (result == wanted).all(), (dtype, width)


def large_gradients_use_pages_of_the_round_before() -> None:
    size = 3_000_000
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[size])
    for step in range(3):
        for number in range(10):
            accumulator.apply_grad(tf.fill([size], float(number)), local_step=step)
        assert (accumulator.take_grad(10).numpy() == 4.5).all(), step


def a_take_waits_for_gradients_of_another_thread() -> None:
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[2])
    taken: list[list[float]] = []
    taker = threading.Thread(target=lambda: taken.append(accumulator.take_grad(3).numpy().tolist()))
    taker.start()
    for number in range(3):
        accumulator.apply_grad([float(number), 3.0])
    taker.join()
    assert taken == [[1.0, 3.0]], taken


def graphs_and_sessions_work() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[2], shared_name="graph")
        gradient = v1.placeholder(tf.float32, [2])
        apply, take = accumulator.apply_grad(gradient), accumulator.take_grad(2)
        session.run(apply, {gradient: [1, 2]})
        session.run(apply, {gradient: [3, 6]})
        assert session.run(take).tolist() == [2.0, 4.0]


def stale_gradients_are_dropped() -> None:
    accumulator = tf_condacc.ConditionalAccumulator(tf.float64, shape=[100])
    accumulator.set_global_step(5)
    accumulator.apply_grad(np.ones(100), local_step=4)
    assert int(accumulator.num_accumulated()) == 0


def eight_threads_lose_no_gradient() -> None:
    accumulator = tf_condacc.ConditionalAccumulator(tf.float64, shape=[100], reduction_type="SUM")

    def push() -> None:
        for _ in range(50):
            accumulator.apply_grad(np.ones(100))

    threads = [threading.Thread(target=push) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (accumulator.take_grad(400).numpy() == 400).all()


def sync_replicas_optimizer_trains() -> None:
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", initializer=[4.0], use_resource=True)
        step = v1.train.get_or_create_global_step()
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=1, total_num_replicas=1
        )
        train = optimizer.minimize(weight * weight, global_step=step)
        hooks = [optimizer.make_session_run_hook(True)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(3):
                session.run(train)
            assert session.run(step) == 3
            assert session.run(weight)[0] == 0.0


CHECKS = (
    dense_results_have_the_bits_of_numpys_sums,
    sparse_results_are_exact,
    large_gradients_use_pages_of_the_round_before,
    a_take_waits_for_gradients_of_another_thread,
    graphs_and_sessions_work,
    stale_gradients_are_dropped,
    eight_threads_lose_no_gradient,
    sync_replicas_optimizer_trains,
)


def main() -> int:
    """Runs all checks, and returns the exit status."""
    begin, num_failed = time.monotonic(), 0
    print(f"TensorFlow {tf.__version__}, {tf_condacc.build_info()}", flush=True)
    for check in CHECKS:
        try:
            check()
            outcome = "ok"
        except Exception:
            traceback.print_exc()
            outcome, num_failed = "FAILED", num_failed + 1
        name = check.__name__.replace("_", " ")
        print(f"{time.monotonic() - begin:6.1f} s  {outcome:6}  {name}", flush=True)
    print(f"{len(CHECKS) - num_failed} passed, {num_failed} failed")
    return min(num_failed, 1)


if __name__ == "__main__":
    sys.exit(main())
