"""The cycle of one dense accumulator: N gradients are applied one after another, then taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from condacc_bench import implementations
from condacc_bench.cases.staging import Stage
from condacc_bench.rounds import net, seconds_for

v1 = tf.compat.v1

PRODUCERS = ("staged", "mul", "shared")
_MAX_STAGED_BYTES = 2 << 30
_ELEMENTS_PER_MEASUREMENT = 4_000_000
_MAX_REPETITIONS = 50


class DenseCycle:
    """A cycle of ``count`` applies of ``size`` elements each, and a take.

    The producer of the gradients is one of:

    * ``staged``: Gradients are made beforehand and held in a staging buffer. The timed step empties
    the buffer, so that the accumulator's op is the only owner, as with gradients from a worker.
    * ``mul``: Gradients are computed in the timed step. The accumulator's op owns them as well. The
    cycle includes the time to compute them, which depends on the memory that the accumulator has
    freed.
    * ``shared``: The gradient is the value of a variable, which the op must not keep or overwrite.
    """

    def __init__(
        self,
        implementation: implementations.Implementation,
        count: int,
        size: int,
        dtype: tf.DType = tf.float32,
        producer: str = "staged",
        max_step_bytes: int = _MAX_STAGED_BYTES,
        check: bool = True,
    ):
        self._count, self._size, self._dtype = count, size, dtype
        self._producer = producer
        self._per_step = largest_divisor(count, max_step_bytes // (size * dtype.size))
        self._repetitions = num_repetitions(size, count)
        with tf.Graph().as_default() as graph:
            self._build(implementation)
            self._session = implementations.new_session(graph)
            self._session.run(v1.global_variables_initializer())
        self._make_callables()
        if check:
            self.check_result()

    def _build(self, implementation: implementations.Implementation) -> None:
        accumulator = implementation.dense(
            self._dtype, shape=[self._size], name=implementations.unique_name("accumulator")
        )
        self._staged_value = v1.placeholder(tf.float32, [])
        self._stage = Stage([tf.fill([self._size], tf.cast(self._staged_value, self._dtype))])
        self._variable = v1.get_variable(
            implementations.unique_name("variable"),
            initializer=tf.ones([self._size], self._dtype),
            use_resource=True,
        )
        self._apply_op = self._chain(
            lambda gradient: accumulator.apply_grad(
                gradient, local_step=implementations.NEVER_STALE
            )
        )
        self._produce_op = (
            tf.no_op() if self._producer == "mul" else self._chain(lambda gradient: gradient.op)
        )
        self._taken = accumulator.take_grad(self._count)
        self._nothing_op = tf.no_op()

    def _chain(self, consume: Callable[[tf.Tensor], tf.Operation]) -> tf.Operation:
        """Builds operations that produce and consume gradients strictly one after another."""
        last: tf.Operation | None = None
        for i in range(self._per_step):
            with tf.control_dependencies([last] if last is not None else []):
                gradient = self._produce(i)
            with tf.control_dependencies([gradient]):
                last = consume(gradient)
        return last

    def _produce(self, i: int) -> tf.Tensor:
        if self._producer == "staged":
            return self._stage.next()[0]
        if self._producer == "mul":
            return self._variable.read_value() * tf.constant(_value(i), self._dtype)
        return tf.identity(self._variable.read_value())

    def _make_callables(self) -> None:
        call = self._session.make_callable
        self._run_apply = call(self._apply_op)
        self._run_produce = call(self._produce_op)
        self._run_take = call(self._taken.op)
        self._run_nothing = call(self._nothing_op)
        self._run_fill = call(self._stage.fill, feed_list=[self._staged_value])
        self._run_fill_and_keep = call(self._stage.fill_and_keep, feed_list=[self._staged_value])
        self._run_free_kept = call(self._stage.free_kept)

    def _fill(self, first: int = 0, keep: bool = False) -> None:
        """Stages the gradients of a step, of which the number ``first`` is the first one."""
        if self._producer == "staged":
            for i in range(self._per_step):
                is_kept = keep and first + i < self._count - 1
                run = self._run_fill_and_keep if is_kept else self._run_fill
                run(_value(i))

    def check_result(self) -> None:
        """Runs one cycle and checks its mean. This also warms up the session."""
        self.apply_all()
        mean = self._session.run(self._taken).astype(np.float64)
        one_each = self._producer == "shared"
        expected = 1.0 if one_each else np.mean([_value(i) for i in range(self._per_step)])
        if mean.shape != (self._size,) or not np.allclose(mean, expected, rtol=2**-8, atol=0):
            raise AssertionError(f"expected {self._size} times {expected}, got {mean}")

    def apply_all(self) -> None:
        """Applies all gradients, without timing."""
        for _ in range(self._count // self._per_step):
            self._fill()
            self._run_apply()

    def take(self) -> None:
        """Takes their mean."""
        self._run_take()

    def measure(self) -> dict[str, float]:
        cycles = np.array([self._cycle() for _ in range(self._repetitions)])
        apply, produce, take, nothing = np.median(cycles, axis=0)
        return {"cycle": float(net(apply + take, produce + nothing))}

    def _cycle(self) -> tuple[float, float, float, float]:
        apply = produce = 0.0
        for first in range(0, self._count, self._per_step):
            self._fill(first, keep=True)
            produce += seconds_for(self._run_produce)
            self._run_free_kept()
            self._fill()
            apply += seconds_for(self._run_apply)
        nothing = seconds_for(self._run_nothing)
        return apply, produce, seconds_for(self._run_take), nothing

    def close(self) -> None:
        self._session.close()


def _value(i: int) -> float:
    return 1 + i / 64


def num_repetitions(size: int, count: int) -> int:
    """Returns how many cycles a measurement times; their median is its result."""
    return max(1, min(_MAX_REPETITIONS, _ELEMENTS_PER_MEASUREMENT // (size * count)))


def largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of ``number`` that is at most ``limit`` and at least 1."""
    return max(d for d in range(1, number + 1) if number % d == 0 and d <= max(limit, 1))
