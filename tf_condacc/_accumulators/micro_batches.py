"""The accumulators of a `GradientAccumulator` on each replica, and the updates from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.gradient_checks import check_scope, name_of
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator
from tf_condacc._typing import TensorLike

# These words are in TensorFlow's error for a `merge_call` in a graph inside that of the replicas.
_FROM_ANOTHER_GRAPH = "while defining a new graph"
# Types of graphs, and the statements for which TensorFlow builds them.
_ENCLOSING = {
    "CondBranchFuncGraph": "a tf.cond or an `if` on a tensor",
    "WhileBodyFuncGraph": "a tf.while_loop or a loop over a tensor",
}
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
        """Whether the gradients that are taken are dense."""
        return isinstance(self.accumulator, ConditionalAccumulator)

    def apply(self, gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
        """Applies a gradient, and returns that it was accumulated: `[] bool`."""
        if isinstance(self.accumulator, SparseConditionalAccumulator):
            return self.accumulator.try_apply_indexed_slices_grad(gradient, _NEVER_STALE)
        return self.accumulator.try_apply_grad(gradient, _NEVER_STALE)

    def take(self, num_required: TensorLike) -> tf.Tensor | tf.IndexedSlices:
        """Takes what is accumulated. It has been checked that this is enough."""
        if isinstance(self.accumulator, ConditionalAccumulator):
            return self.accumulator.try_take_grad(num_required).value
        slices = self.accumulator.try_take_indexed_slices_grad(num_required).value
        slices.values.set_shape([None, *self.shape[1:]])
        return slices


def own_strategy() -> tf.distribute.Strategy | None:
    """Returns the strategy in whose scope the caller is, or None for the default one."""
    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


def replica(name: str, expected: tf.distribute.Strategy | None, is_in_use: bool) -> int:
    """Returns the number of the replica that executes the calling function.

    Args:
        name: Name of the `GradientAccumulator`.
        expected: The strategy of the `GradientAccumulator`; None for the default one.
        is_in_use: Whether it has accumulators. Without, another strategy may replace the default.
    """
    context, strategy = tf.distribute.get_replica_context(), own_strategy()
    if context is None:
        raise RuntimeError(
            f"GradientAccumulator '{name}' is used outside of a function that "
            f"{_described(strategy)} runs on replicas. Use it in the function that is passed to "
            "strategy.run."
        )
    if strategy is not expected and (expected is not None or is_in_use):
        another = "another " if type(strategy) is type(expected) else ""
        raise RuntimeError(
            f"GradientAccumulator '{name}' was made or first used under {_described(expected)}, "
            f"but is now used under {another}{_described(strategy)}. Use it in functions that are "
            "passed to strategy.run of the same strategy."
        )
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def _described(strategy: tf.distribute.Strategy | None) -> str:
    return "the default strategy" if strategy is None else type(strategy).__name__


def make_slots(
    variables: Sequence[Any],
    gradients: Sequence[Any],
    reduction_type: str,
    replica_id: int,
    name: str,
) -> list[Slot]:
    """Makes the accumulators of a replica on its device, outside of functions under construction.

    Args:
        variables: The variables.
        gradients: Their gradients, which tell the kind of each accumulator.
        reduction_type: "MEAN" or "SUM".
        replica_id: Number of the replica.
        name: Name of the `GradientAccumulator`.
    """
    sparse_reduction = "GLOBAL_MEAN" if reduction_type == "MEAN" else reduction_type
    slots = []
    with tf.init_scope(), tf.device(_device_of(replica_id)):
        for gradient, variable in zip(gradients, variables, strict=True):
            dtype, shape = tf.as_dtype(variable.dtype), tf.TensorShape(variable.shape)
            variable_name = re.sub(r"[^\w./-]", "_", name_of(variable).removesuffix(":0"))
            slot_name = f"{name}/{variable_name}"  # Error messages of the operations contain it.
            if isinstance(gradient, tf.IndexedSlices):
                accumulator: Any = SparseConditionalAccumulator(
                    dtype, shape, name=slot_name, reduction_type=sparse_reduction
                )
            else:
                accumulator = ConditionalAccumulator(
                    dtype, shape, name=slot_name, reduction_type=reduction_type
                )
            slots.append(Slot(accumulator, shape))
    return slots


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the variables of a Keras optimizer, which cannot be made in a ``tf.cond``."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        with tf.init_scope():
            optimizer.build(list(variables))


def without_repeated_rows(gradients: Sequence[Any]) -> list[Any]:
    """Makes the sums of the replicas' sparse gradients free of repeated rows.

    TensorFlow concatenates the ``tf.IndexedSlices`` of replicas when it adds them up. Optimizers
    such as Adam of Keras give wrong results for rows that several replicas have. Here one replica
    gets the sum of all, and the others get no rows.

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


def call_if(
    condition: tf.Tensor, update: Callable[[], Any], variables: Sequence[Any], name: str
) -> tf.Tensor:
    """Calls a function that updates variables if a condition holds, and returns the condition.

    Under a strategy, replicas cannot communicate in a branch of ``tf.cond``. There the branch is
    built outside of the replicas, and runs the function on all of them.

    Args:
        condition: The condition, which is the same on all replicas: `[] bool`.
        update: The function. In a graph with sessions it returns the operation of the update.
        variables: The variables that are updated.
        name: Name of the `GradientAccumulator`.
    """

    def merged(strategy: tf.distribute.Strategy, conditions: Any) -> None:
        try:
            _cond(strategy.experimental_local_results(conditions)[0], lambda: strategy.run(update))
        except AssertionError as error:  # TensorFlow does not say what is wrong.
            check_scope(variables, name, error)
            raise

    if not tf.distribute.has_strategy():
        return _cond(condition, update)
    try:
        tf.distribute.get_replica_context().merge_call(merged, args=(condition,))
    except RuntimeError as error:
        if _FROM_ANOTHER_GRAPH not in str(error):
            raise
        where = _ENCLOSING.get(type(tf.compat.v1.get_default_graph()).__name__, "a tf.function")
        raise RuntimeError(
            f"GradientAccumulator '{name}': apply_gradients() is called inside {where} in a "
            f"function that {_described(own_strategy())} runs on replicas, where they cannot make "
            "an update together. Call it directly in the function that is passed to strategy.run: "
            "it updates only after the last micro-batch."
        ) from error
    return condition


def _cond(condition: tf.Tensor, update: Callable[[], Any]) -> tf.Tensor:
    def updated() -> tf.Tensor:
        operation = update()
        with tf.control_dependencies([operation] if isinstance(operation, tf.Operation) else []):
            return tf.constant(True)

    return tf.cond(condition, updated, lambda: tf.constant(False))


def _device_of(replica_id: int) -> str | None:
    if not tf.distribute.has_strategy():
        return None
    devices = tf.distribute.get_strategy().extended.worker_devices
    return devices[replica_id % len(devices)]
