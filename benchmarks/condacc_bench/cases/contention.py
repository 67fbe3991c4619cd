"""Threads that apply to one accumulator at the same time, and a take that waits for them."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from condacc_bench import implementations
from condacc_bench.cases.staging import Stage
from condacc_bench.rounds import seconds_for

v1 = tf.compat.v1

_ELEMENTS_PER_MEASUREMENT = 64_000_000
_LATENCIES = 3


class Contention:
    """``num_threads`` threads apply gradients of ``size`` elements while another one takes.

    Metrics: ``applies/s``, which includes producing the gradients; and ``last apply to take``, the
        time from just before the apply that completes the required number to the return of the
        waiting take. The gradient of that last apply is staged, so that its production takes no
        time.
    """

    def __init__(
        self,
        implementation: implementations.Implementation,
        num_threads: int,
        size: int,
        producer: str,
    ):
        self._size = size
        self._per_thread = max(3, min(200, _ELEMENTS_PER_MEASUREMENT // (size * num_threads)))
        with tf.Graph().as_default() as graph:
            variable = v1.get_variable("variable", initializer=tf.ones([size]), use_resource=True)
            accumulator = implementation.dense(tf.float32, shape=[size], name="accumulator")

            def apply(gradient: tf.Tensor) -> tf.Operation:
                return accumulator.apply_grad(gradient, local_step=implementations.NEVER_STALE)

            value = variable.read_value()
            scales = [tf.constant(1 + i / 64) for i in range(num_threads)]
            applies = [
                apply(variable.read_value() * scale if producer == "mul" else tf.identity(value))
                for scale in scales
            ]
            stage = Stage([tf.fill([size], 1.0)])
            taken = accumulator.take_grad(num_threads)
            self._session = implementations.new_session(graph)
            self._session.run(v1.global_variables_initializer())
            call = self._session.make_callable
            self._run_applies = [call(op) for op in applies]
            self._run_fill, self._run_staged_apply = call(stage.fill), call(apply(*stage.next()))
            self._run_take, self._run_check = call(taken.op), call(taken)
            self._run_count = call(accumulator.num_accumulated())
        self._check_result(producer)

    def _check_result(self, producer: str) -> None:
        for run_apply in self._run_applies:
            run_apply()
        mean = self._run_check()
        values = [1 + i / 64 for i in range(len(self._run_applies))]
        expected = 1.0 if producer == "shared" else np.mean(values)
        if mean.shape != (self._size,) or not np.allclose(mean, expected):
            raise AssertionError(f"expected {self._size} times {expected}, got {mean}")

    def measure(self) -> dict[str, float]:
        return {
            "applies/s": self._applies_per_second(),
            "last apply to take": statistics.median(
                self._last_apply_to_take() for _ in range(_LATENCIES)
            ),
        }

    def _applies_per_second(self) -> float:
        """Measures while another thread takes whenever there is one gradient for each thread."""
        num_threads = len(self._run_applies)
        everybody = threading.Barrier(num_threads + 2)
        ended = threading.Event()

        def apply(run_apply: Callable[[], object]) -> None:
            everybody.wait()
            for _ in range(self._per_thread):
                run_apply()

        def take() -> None:
            everybody.wait()
            while not ended.is_set():
                self._run_take()

        appliers = [threading.Thread(target=apply, args=(run,)) for run in self._run_applies]
        taker = threading.Thread(target=take)
        for thread in (*appliers, taker):
            thread.start()
        everybody.wait()
        elapsed = seconds_for(lambda: [thread.join() for thread in appliers])
        ended.set()
        self._release(taker)
        return num_threads * self._per_thread / elapsed

    def _release(self, taker: threading.Thread) -> None:
        """Applies the missing gradients of a waiting take, and leaves the accumulator empty."""
        while taker.is_alive():
            self._run_applies[0]()
            taker.join(0.001)
        if self._run_count():
            for run_apply in self._run_applies:
                run_apply()
            self._run_take()

    def _last_apply_to_take(self) -> float:
        for run_apply in self._run_applies[:-1]:
            run_apply()
        self._run_fill()
        returned = []

        def take() -> None:
            self._run_take()
            returned.append(time.perf_counter())

        taker = threading.Thread(target=take)
        taker.start()
        # It is not visible from outside when a take has begun to wait and has added the pending
        # gradients. The delay is long enough even on machines with slow memory.
        time.sleep(0.003 + self._size * 3e-9)
        start = time.perf_counter()
        self._run_staged_apply()
        taker.join()
        return returned[0] - start

    def close(self) -> None:
        self._session.close()
