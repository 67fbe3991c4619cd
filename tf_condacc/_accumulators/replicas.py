"""The accumulators of a `GradientAccumulator` on each replica of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator
from tf_condacc._typing import Gradient, TensorLike, VariableLike

_NEVER_STALE = tf.int64.max  # No accumulator's step is higher than this local step.


@dataclass(frozen=True)
class Slot:
    """The accumulator of one variable on one replica.

    Attributes:
        accumulator: The accumulator.
        shape: Shape of the variable.
    """

    accumulator: ConditionalAccumulator | SparseConditionalAccumulator
    shape: tf.TensorShape

    @property
    def is_dense(self) -> bool:
        """True if the gradients that are taken are dense."""
        return isinstance(self.accumulator, ConditionalAccumulator)

    def apply(self, gradient: Gradient) -> tf.Tensor:
        """Applies a gradient, and returns that it was accumulated: `[] bool`."""
        if isinstance(self.accumulator, SparseConditionalAccumulator):
            return self.accumulator.try_apply_indexed_slices_grad(gradient, _NEVER_STALE)
        return self.accumulator.try_apply_grad(gradient, _NEVER_STALE)

    def take(self, num_required: TensorLike) -> Gradient:
        """Takes what is accumulated. It has been checked that this is enough."""
        if isinstance(self.accumulator, ConditionalAccumulator):
            return self.accumulator.try_take_grad(num_required).value
        slices = self.accumulator.try_take_indexed_slices_grad(num_required).value
        slices.values.set_shape([None, *self.shape[1:]])
        return slices


def own_strategy() -> tf.distribute.Strategy | None:
    """Returns the strategy in whose scope the caller is, or None for the default one."""
    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


def described(strategy: tf.distribute.Strategy | None) -> str:
    """Returns what error messages call a strategy; None stands for the default one."""
    return "the default strategy" if strategy is None else type(strategy).__name__


def make_slots(
    replica: int,
    names: Sequence[str],
    variables: Sequence[VariableLike],
    gradients: Sequence[Gradient],
    reduction_type: str,
) -> list[Slot]:
    """Makes the accumulators of a replica on its device, outside of functions under construction.

    Args:
        replica: Number of the replica.
        names: Name of each accumulator.
        variables: The variables.
        gradients: Their gradients, which tell the kind of each accumulator.
        reduction_type: "MEAN" or "SUM".
    """
    sparse_reduction = "GLOBAL_MEAN" if reduction_type == "MEAN" else reduction_type
    slots = []
    with tf.init_scope(), tf.device(_device_of(replica)):
        for name, gradient, variable in zip(names, gradients, variables, strict=True):
            dtype, shape = tf.as_dtype(variable.dtype), tf.TensorShape(variable.shape)
            if isinstance(gradient, tf.IndexedSlices):
                accumulator: Any = SparseConditionalAccumulator(
                    dtype, shape, name=name, reduction_type=sparse_reduction
                )
            else:
                accumulator = ConditionalAccumulator(
                    dtype, shape, name=name, reduction_type=reduction_type
                )
            slots.append(Slot(accumulator, shape))
    return slots


def without_repeated_rows(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Replaces sparse gradients such that no row is repeated when the replicas' are added up.

    TensorFlow concatenates the ``tf.IndexedSlices`` of replicas when it adds them up. Optimizers
    such as Adam of Keras give wrong results for rows that several replicas have. The first replica
    therefore gets the sum of all replicas' gradients, and the others get gradients without rows.

    Args:
        gradients: The gradients of this replica.

    Returns:
        Gradients that the optimizer may add up over the replicas.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return list(gradients)
    return [
        _sum_on_first_replica(one) if isinstance(one, tf.IndexedSlices) else one
        for one in gradients
    ]


def _sum_on_first_replica(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    context = tf.distribute.get_replica_context()
    together = context.all_reduce(tf.distribute.ReduceOp.SUM, slices)
    rows, positions = tf.unique(together.indices)
    if tf.get_static_value(context.replica_id_in_sync_group) != 0:
        return tf.IndexedSlices(together.values[:0], rows[:0], slices.dense_shape)
    values = tf.math.unsorted_segment_sum(together.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, slices.dense_shape)


def _device_of(replica_id: int) -> str | None:
    if not tf.distribute.has_strategy():
        return None
    devices = tf.distribute.get_strategy().extended.worker_devices
    return devices[replica_id % len(devices)]
