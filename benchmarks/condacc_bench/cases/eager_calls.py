"""Calls of the accumulators' methods, and of their operations: eager, and while traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from condacc_bench.rounds import seconds_for

_ROWS, _COLUMNS = 8, 4
_CALLS = 200
_TRACED_CALLS = 40
_STEP = 1 << 60

CALLS = ("apply_grad", "apply_indexed_slices_grad", "take_grad")


class EagerCalls:
    """Calls of one method. Metric: ``call``, the time of one.

    A ``take_grad`` is timed together with the apply before it. Each gradient is a new tensor, as
    those of a training are.

    Args:
      method: One of `CALLS`.
      raw: Whether to call the generated functions of the operations instead, with arguments that
        are tensors already.
    """

    def __init__(self, method: str, raw: bool):
        self._sparse = method == "apply_indexed_slices_grad"
        self._call = (_raw_call if raw else _call)(method)
        self.measure()

    def measure(self) -> dict[str, float]:
        gradients = [self._gradient(i) for i in range(_CALLS)]

        def run() -> None:
            for gradient in gradients:
                self._call(gradient)

        return {"call": seconds_for(run) / _CALLS}

    def _gradient(self, number: int) -> Any:
        values = tf.fill([_ROWS, _COLUMNS], float(number))
        if not self._sparse:
            return values
        return tf.IndexedSlices(
            values, tf.range(_ROWS, dtype=tf.int64), tf.constant([_ROWS, _COLUMNS], tf.int64)
        )

    def close(self) -> None:
        """Does nothing: the accumulator ends with the object."""


class TracedCalls:
    """A function with many calls of ``take_grad``, each after an apply. Metric: ``trace``.

    AutoGraph is on, as in most programs.

    Args:
      raw: As in `EagerCalls`.
    """

    def __init__(self, raw: bool) -> None:
        self._call = (_raw_call if raw else _call)("take_grad")
        self.measure()

    def measure(self) -> dict[str, float]:
        @tf.function
        def step(gradient: tf.Tensor) -> None:
            for _ in range(_TRACED_CALLS):
                self._call(gradient)

        spec = tf.TensorSpec([_ROWS, _COLUMNS])
        return {"trace": seconds_for(lambda: step.get_concrete_function(spec))}

    def close(self) -> None:
        """Does nothing: the accumulator ends with the object."""


def _call(method: str) -> Callable[[Any], Any]:
    import tf_condacc

    kind = tf_condacc.ConditionalAccumulator
    if method == "apply_indexed_slices_grad":
        kind = tf_condacc.SparseConditionalAccumulator
    accumulator = kind(tf.float32, [_ROWS, _COLUMNS])
    if method != "take_grad":
        apply = getattr(accumulator, method)
        return lambda gradient: apply(gradient, local_step=_STEP)

    def apply_and_take(gradient: tf.Tensor) -> tf.Tensor:
        accumulator.apply_grad(gradient, local_step=_STEP)
        return accumulator.take_grad(1)

    return apply_and_take


def _raw_call(method: str) -> Callable[[Any], Any]:
    import tf_condacc
    from tf_condacc._ops.native import ops

    step, one = tf.constant(_STEP, tf.int64), tf.constant(1)
    if method == "apply_indexed_slices_grad":
        sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [_ROWS, _COLUMNS])
        return lambda slices: ops.condacc_sparse_apply(
            sparse.accumulator_ref,
            step,
            slices.indices,
            slices.values,
            slices.dense_shape,
            [],
            [],
        )
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [_ROWS, _COLUMNS])
    handle = dense.accumulator_ref
    if method == "apply_grad":
        return lambda gradient: ops.condacc_dense_apply(handle, step, gradient, [], [])

    def apply_and_take(gradient: tf.Tensor) -> tf.Tensor:
        ops.condacc_dense_apply(handle, step, gradient, [], [])
        return ops.condacc_dense_try_take(handle, one, [], dtype=tf.float32)

    return apply_and_take
