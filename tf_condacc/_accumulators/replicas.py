"""The accumulators of a variable, and of weights, on one replica of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator
from tf_condacc._accumulators.weights import multiplied
from tf_condacc._ops.host import host_int64
from tf_condacc._ops.native import ops
from tf_condacc._typing import Gradient, TensorLike, VariableLike

_NEVER_STALE = tf.int64.max  # No accumulator's step is higher than this local step.
_ALWAYS_STALE = tf.int64.min  # Every accumulator's step is higher.


class _FoldingAccumulator(ConditionalAccumulator):
    """An accumulator that holds no gradients except the sum and the last one.

    A forward and a backward pass lie between two micro-batches, so gradients that are held back for
    the next one only take memory.
    """

    _ATTRIBUTES = {"holds": False}


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

    def apply(self, gradient: Gradient, weight: tf.Tensor | None, step: tf.Tensor) -> tf.Tensor:
        """Applies a gradient, and returns whether it was accumulated: `[] bool`.

        Args:
            gradient: The gradient.
            weight: Factor of the gradient: `[] float64`; None for 1. With 0, even a gradient with
                infinities adds zeros only.
            step: The local step; see `local_step`.
        """
        gradient = _multiplied(gradient, weight)
        if isinstance(self.accumulator, SparseConditionalAccumulator):
            return self.accumulator.try_apply_indexed_slices_grad(gradient, step)
        return self.accumulator.try_apply_grad(gradient, step)

    def take(self, num_required: TensorLike, factor: tf.Tensor | None) -> Gradient:
        """Takes what is accumulated. It has been checked that this is enough.

        Args:
            num_required: Number of micro-batches that are enough: `[] int32`.
            factor: Factor of the result: `[] float64`; None for 1.
        """
        if isinstance(self.accumulator, ConditionalAccumulator):
            taken = self.accumulator.try_take_grad(num_required).value
        else:
            taken = self.accumulator.try_take_indexed_slices_grad(num_required).value
            taken.values.set_shape([None, *self.shape[1:]])
        return _multiplied(taken, factor)

    def apply_and_take(
        self,
        gradient: tf.Tensor,
        weight: tf.Tensor | None,
        step: tf.Tensor,
        num_required: TensorLike,
        factor: tf.Tensor | None,
    ) -> tf.Tensor:
        """Does what `apply` and `take` of a dense gradient do, in one operation."""
        gradient = tf.convert_to_tensor(_multiplied(gradient, weight))
        taken = ops.condacc_dense_apply_take(
            self.accumulator.accumulator_ref, step, gradient, num_required
        )
        taken.set_shape(self.shape)
        return _multiplied(taken, factor)


class WeightSum:
    """The weights of the micro-batches that one replica has accumulated since the last take.

    Args:
        name: Name of the accumulator.
        replica: Number of the replica.
    """

    def __init__(self, name: str, replica: int) -> None:
        # Sums the weights and counts them, because not every micro-batch has a weight.
        with tf.init_scope(), tf.device(_device_of(replica)):
            self.accumulator = ConditionalAccumulator(
                tf.float64, [2], name=name, reduction_type="SUM"
            )

    def add(self, weight: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Adds the weight of a micro-batch, and returns whether it was added: `[] bool`.

        Args:
            weight: The weight: `[] float64`.
            step: The local step; see `local_step`.
        """
        return self.accumulator.try_apply_grad(tf.stack([weight, tf.ones_like(weight)]), step)

    def take_factor(self, num_accumulated: tf.Tensor) -> tf.Tensor:
        """Takes the weights, and returns what turns this replica's means into weighted ones.

        The mean over n micro-batches is multiplied by n and divided by the sum of all weights.
        Optimizers sum the replicas' gradients, which are already divided by the number of replicas.
        The sum of the weights is divided by that number as well.

        Args:
            num_accumulated: Number of micro-batches of this replica: `[] int32`.

        Returns:
            The factor, 0 if no micro-batch of any replica has a weight above 0: `[] float64`.
        """
        number = tf.cast(num_accumulated, tf.float64)
        taken, weights = self.accumulator.try_take_grad(1)
        weights = tf.where(taken, weights, tf.zeros_like(weights))
        total = weights[0] + (number - weights[1])  # A micro-batch without a weight counts as 1.
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if num_replicas > 1:
            context = tf.distribute.get_replica_context()
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, total)
        return tf.math.divide_no_nan(number * num_replicas, total)


def local_step(is_skipped: tf.Tensor | bool) -> tf.Tensor:
    """Returns the local step of a micro-batch, with which accumulators drop or keep it: `[] int64`.

    All gradients of a micro-batch share it: a constant for each would be a node for each.

    Args:
        is_skipped: Whether to drop the micro-batch as stale, which accumulators count: `[] bool`.
    """
    if isinstance(is_skipped, bool):
        return host_int64(_ALWAYS_STALE if is_skipped else _NEVER_STALE)
    stale, never_stale = (tf.constant(x, tf.int64) for x in (_ALWAYS_STALE, _NEVER_STALE))
    return tf.where(is_skipped, stale, never_stale)


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
                accumulator = _FoldingAccumulator(
                    dtype, shape, name=name, reduction_type=reduction_type
                )
            slots.append(Slot(accumulator, shape))
    return slots


def _multiplied(gradient: Gradient, factor: tf.Tensor | None) -> Gradient:
    """Multiplies a gradient by a factor, `[] float64`. A factor of 0 sets all elements to zero."""
    if factor is None:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        values = multiplied(gradient.values, factor)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return multiplied(gradient, factor)


def _device_of(replica_id: int) -> str | None:
    if not tf.distribute.has_strategy():
        return None
    devices = tf.distribute.get_strategy().extended.worker_devices
    return devices[replica_id % len(devices)]
