"""Calls of an accumulator while another thread saves it."""

from __future__ import annotations

import statistics
import threading

import tensorflow as tf

from condacc_bench.rounds import seconds_for

_NUM_CALLS = 12


class Saves:
    """Calls an accumulator while its state is saved again and again, or is not.

    Metrics, the median of several calls: ``count``, which only needs the lock; and ``apply`` of a
    borrowed gradient, which waits if the sum is being copied.

    Args:
        size: Elements of a gradient.
        is_saved: Whether another thread saves the accumulator.
    """

    def __init__(self, size: int, is_saved: bool) -> None:
        import tf_condacc
        from tf_condacc._ops.native import ops

        self._save = ops.condacc_accumulator_save
        self._accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [size])
        self._gradient = tf.ones([size])
        self._is_saved = is_saved
        self._accumulator.apply_grad(self._gradient)

    def measure(self) -> dict[str, float]:
        ended = threading.Event()

        def save() -> None:
            while not ended.is_set():
                self._save(self._accumulator.accumulator_ref)

        thread = threading.Thread(target=save)
        if self._is_saved:
            thread.start()
        calls = {
            "count": self._accumulator.num_accumulated,
            "apply": lambda: self._accumulator.apply_grad(self._gradient),
        }
        measured = {
            name: statistics.median(seconds_for(call) for _ in range(_NUM_CALLS))
            for name, call in calls.items()
        }
        ended.set()
        if self._is_saved:
            thread.join()
        self._accumulator.reset(0)
        self._accumulator.apply_grad(self._gradient)
        return measured

    def close(self) -> None:
        """Does nothing: the accumulator ends with the object."""
