"""Rounds of many contributors."""

from __future__ import annotations

import tensorflow as tf

from condacc_bench.rounds import seconds_for


class Contributors:
    """Applies a gradient of each contributor, and takes the round. Metric: ``apply``, each one's.

    Args:
      count: Number of contributors in a round.
      num_applies: Number of gradients in each measurement, in one round or several.
    """

    def __init__(self, count: int, num_applies: int) -> None:
        import tf_condacc
        from tf_condacc._ops.native import ops

        self._apply = ops.condacc_dense_apply
        self._accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [1])
        self._contributors = [tf.constant(number, tf.int64) for number in range(count)]
        self._num_rounds = -(-num_applies // count)
        self._step = 0
        self.measure()

    def measure(self) -> dict[str, float]:
        seconds = sum(self._apply_round() for _ in range(self._num_rounds))
        return {"apply": seconds / (self._num_rounds * len(self._contributors))}

    def _apply_round(self) -> float:
        handle, gradient = self._accumulator.accumulator_ref, tf.ones([1])
        step = tf.constant(self._step, tf.int64)

        def run() -> None:
            for contributor in self._contributors:
                self._apply(handle, step, gradient, [contributor], [])

        seconds = seconds_for(run)
        self._accumulator.take_grad(len(self._contributors))
        self._step += 1
        return seconds

    def close(self) -> None:
        """Does nothing: the accumulator ends with the object."""
