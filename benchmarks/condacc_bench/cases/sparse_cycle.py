"""The cycle of one sparse accumulator: N gradients are applied one after another, then taken."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from condacc_bench import implementations
from condacc_bench.cases import sparse_data
from condacc_bench.cases.dense_cycle import largest_divisor
from condacc_bench.cases.staging import Stage
from condacc_bench.rounds import net, seconds_for

v1 = tf.compat.v1

_MAX_STAGED_BYTES = 1 << 30
_MAX_FUSED_ELEMENTS = 16_000_000
_MAX_FUSED_CYCLES = 32
# After a longer pause, a cycle runs untimed before the timed one.
_MAX_PAUSE_SECONDS = 1.0


class SparseCycle:
    """A cycle of applies of the given rows, and a take.

    Gradients are made beforehand and held in a staging buffer. The timed step empties the buffer,
    so that the accumulator's op is the only owner. A step contains several short cycles, so that
    their time exceeds that of the step itself. Cycles follow each other as in training: where the
    other implementations of a round take long, a cycle runs untimed first, because memory that was
    idle meanwhile may have been given back to the system.

    Args:
      implementation: The implementation of the accumulator.
      gradients: Row numbers of each gradient, ``[N, rows of a gradient]``.
      shape: Shape of the variable that the rows belong to; None if the number of rows is unknown.
      raw: Whether the rows are in any order and repeat. If the implementation cannot take such
          rows, the timed step sorts them and makes them unique, and this time is included.
      max_step_bytes: Limit of the gradients that are staged and then applied in one step, which has
          at least one gradient.
      check: Whether to check a mean first.
      borrowed: Whether a variable owns the values of all gradients, which are then 1. The
          accumulator must copy them, as it copies those that are fed.
    """

    def __init__(
        self,
        implementation: implementations.Implementation,
        gradients: np.ndarray,
        shape: tuple[int | None, int],
        raw: bool = False,
        max_step_bytes: int = _MAX_STAGED_BYTES,
        check: bool = True,
        borrowed: bool = False,
    ):
        self._gradients, self._shape, self._borrowed = gradients, shape, borrowed
        self._count, self._rows = gradients.shape
        elements = self._rows * shape[1]
        self._per_step = largest_divisor(self._count, max_step_bytes // (4 * elements))
        self._fused = min(_MAX_FUSED_CYCLES, _MAX_FUSED_ELEMENTS // (elements * self._count))
        if self._per_step < self._count:
            self._fused = 0
        self._deduplicated = raw and not implementation.takes_any_rows
        with tf.Graph().as_default() as graph:
            self._build(implementation)
            self._session = implementations.new_session(graph)
            self._session.run(v1.global_variables_initializer(), {self._all_indices: gradients})
        self._make_callables()
        self._last_end = 0.0
        if check:
            self.check_result()

    def _build(self, implementation: implementations.Implementation) -> None:
        accumulator = implementation.sparse(
            tf.float32, shape=self._shape, name=implementations.unique_name("accumulator")
        )
        self._all_indices = v1.placeholder(tf.int64, self._gradients.shape)
        indices = v1.get_variable(
            implementations.unique_name("indices"),
            initializer=self._all_indices,
            use_resource=True,
        )
        self._number = v1.placeholder(tf.int32, [])
        self._staged_value = v1.placeholder(tf.float32, [])
        values_shape = [self._rows, self._shape[1]]
        if self._borrowed:
            values = v1.get_variable(
                implementations.unique_name("values"),
                initializer=tf.ones(values_shape),
                use_resource=True,
            ).read_value()
        else:
            values = tf.fill(values_shape, self._staged_value)
        self._stage = Stage([tf.gather(indices, self._number), values])
        self._taken = accumulator.take_grad(self._count)
        self._nothing_op = tf.no_op()

        def apply(indices: tf.Tensor, values: tf.Tensor) -> tf.Operation:
            if self._deduplicated:
                indices, values = sparse_data.deduplicate(indices, values)
            known_shape = None if self._shape[0] is None else self._shape
            return accumulator.apply_grad(
                indices, values, known_shape, local_step=implementations.NEVER_STALE
            )

        def produce(indices: tf.Tensor, values: tf.Tensor) -> tf.Operation:
            return values.op

        self._apply_op = self._chain([], self._per_step, apply)
        self._produce_op = self._chain([], max(1, self._fused) * self._per_step, produce)
        cycles: list[tf.Operation] = []
        for _ in range(self._fused):
            applies = self._chain(cycles, self._count, apply)
            with tf.control_dependencies([applies]):
                cycles = [accumulator.take_grad(self._count)[0].op]
        self._cycles_op = tf.group(*cycles)

    def _chain(
        self,
        after: list[tf.Operation],
        number: int,
        consume: Callable[[tf.Tensor, tf.Tensor], tf.Operation],
    ) -> tf.Operation:
        """Builds operations that produce and consume gradients strictly one after another."""
        for _ in range(number):
            with tf.control_dependencies(after):
                indices, values = self._stage.next()
            with tf.control_dependencies([indices, values]):
                after = [consume(indices, values)]
        return after[0]

    def _make_callables(self) -> None:
        call = self._session.make_callable
        self._run_apply = call(self._apply_op)
        self._run_produce = call(self._produce_op)
        self._run_cycles = call(self._cycles_op)
        self._run_take = call(self._taken[0].op)
        self._run_nothing = call(self._nothing_op)
        feeds = [self._number, self._staged_value]
        self._run_fill = call(self._stage.fill, feed_list=feeds)
        self._run_fill_and_keep = call(self._stage.fill_and_keep, feed_list=feeds)
        self._run_free_kept = call(self._stage.free_kept)

    def _fill(self, first: int = 0, keep: bool = False) -> None:
        for number in range(first, first + self._per_step):
            is_kept = keep and number < self._count - 1
            run = self._run_fill_and_keep if is_kept else self._run_fill
            run(number, self._value(number))

    def apply_each(self) -> list[float]:
        """Applies all gradients; returns the time of each step without producing the gradients."""
        seconds = []
        for first in range(0, self._count, self._per_step):
            self._fill(first)
            seconds.append(seconds_for(self._run_apply))
        return seconds

    def take(self) -> float:
        """Takes their mean and returns the time."""
        return seconds_for(self._run_take)

    def check_result(self) -> None:
        """Runs one cycle and checks its mean. This also warms up the session."""
        self.apply_each()
        indices, values, _ = self._session.run(self._taken)
        rows, means = sparse_data.mean(
            self._gradients, [self._value(i) for i in range(self._count)]
        )
        if not np.array_equal(indices, rows):
            raise AssertionError(f"expected rows {rows}, got {indices}")
        if values.shape != (len(rows), self._shape[1]) or not np.allclose(
            values, means[:, np.newaxis], rtol=1e-4, atol=0
        ):
            raise AssertionError(f"expected means {means}, got {values}")

    def measure(self) -> dict[str, float]:
        cycle = self._fused_cycle if self._fused else self._long_cycle
        if time.perf_counter() - self._last_end > _MAX_PAUSE_SECONDS:
            cycle()
        seconds = cycle()
        self._last_end = time.perf_counter()
        return {"cycle": seconds}

    def _fused_cycle(self) -> float:
        """Returns the seconds of one cycle, if a step contains several."""
        for _ in range(self._fused):
            self._fill(keep=True)
        produce = seconds_for(self._run_produce)
        self._run_free_kept()
        for _ in range(self._fused):
            self._fill()
        return net(seconds_for(self._run_cycles), produce) / self._fused

    def _long_cycle(self) -> float:
        """Returns the seconds of a cycle whose take is a separate step."""
        apply = produce = 0.0
        for first in range(0, self._count, self._per_step):
            self._fill(first, keep=True)
            produce += seconds_for(self._run_produce)
            self._run_free_kept()
            self._fill(first)
            apply += seconds_for(self._run_apply)
        nothing = seconds_for(self._run_nothing)
        return net(apply + self.take(), produce + nothing)

    def _value(self, i: int) -> float:
        return 1 if self._borrowed else 1 + i / 64

    def close(self) -> None:
        self._session.close()
