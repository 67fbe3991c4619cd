"""A cycle of micro-batches whose gradients are checked to be finite, and one without the check."""

from __future__ import annotations

import tensorflow as tf

from condacc_bench.rounds import seconds_for

SIZE = 1 << 20  # Elements of the gradient.
NUM_MICRO_BATCHES = 8


class FiniteCheck:
    """Accumulates the gradients of micro-batches and takes their mean. Metric: ``cycle``.

    Args:
      checks: Whether the gradients are checked.
    """

    def __init__(self, checks: bool) -> None:
        import tf_condacc

        accumulator = tf_condacc.GradientAccumulator(
            [tf.Variable(tf.zeros([SIZE]))], NUM_MICRO_BATCHES, skip_non_finite=checks
        )

        @tf.function
        def accumulate(value: tf.Tensor) -> tf.Tensor:
            return accumulator.accumulate([tf.fill([SIZE], value)])

        def cycle() -> None:
            for number in range(NUM_MICRO_BATCHES):
                accumulate(tf.constant(float(number)))
            accumulator.take()

        self._cycle = cycle
        self.measure()

    def measure(self) -> dict[str, float]:
        return {"cycle": seconds_for(self._cycle)}

    def close(self) -> None:
        """Does nothing: the accumulator ends with the object."""
