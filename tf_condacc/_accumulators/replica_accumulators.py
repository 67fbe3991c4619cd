"""The accumulators of a `GradientAccumulator` on all replicas of a strategy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_condacc._accumulators import replicas
from tf_condacc._accumulators.gradient_checks import gradient_title, name_of
from tf_condacc._accumulators.replicas import Slot, WeightSum, local_step
from tf_condacc._ops.host import arguments_on_host
from tf_condacc._tensorflow import Trackable
from tf_condacc._typing import Gradient, TensorLike, VariableLike


class MicroBatch(NamedTuple):
    """The gradients of a micro-batch of one replica, and where they go.

    Attributes:
        slots: The accumulators of the replica.
        gradients: A gradient for each.
        weight: Weight of the micro-batch: `[] float64`; None if it has none.
        weight_sum: The sum of weights of the replica; None if it is not needed.
        is_skipped: Whether to drop the micro-batch: `[] bool`.
    """

    slots: list[Slot]
    gradients: list[Gradient]
    weight: tf.Tensor | None
    weight_sum: WeightSum | None
    is_skipped: tf.Tensor | bool

    def targets(self) -> Iterator[tuple[Slot, Gradient]]:
        """Returns each accumulator and its gradient."""
        return zip(self.slots, self.gradients, strict=True)

    def num_added(self) -> tf.Tensor | int:
        """Returns by how much the micro-batch increases the number of micro-batches: `[] int32`."""
        if isinstance(self.is_skipped, bool):
            return int(not self.is_skipped)
        return 1 - tf.cast(self.is_skipped, tf.int32)


class ReplicaAccumulators(Trackable):
    """The accumulators of each replica, which its first gradients and its first weight make.

    Args:
        title: What error messages call the `GradientAccumulator`.
        name: Name of the `GradientAccumulator`, with which those of the accumulators begin.
        variables: The variables.
        reduction_type: "MEAN" or "SUM".

    Raises:
        RuntimeError: Replicas make no common updates, or each would make its own object.
    """

    def __init__(
        self, title: str, name: str, variables: Sequence[VariableLike], reduction_type: str
    ) -> None:
        self._title = title
        self._name = name
        self._variables = variables
        self._reduction_type = reduction_type
        self._check_is_outside_replicas()
        self._strategy = replicas.own_strategy()
        # Keyed by the number of the replica.
        self._slots: dict[int, list[Slot]] = {}
        self._weights: dict[int, WeightSum] = {}  # Empty until a weight is given.
        self._is_traced_without_weights = False

    def made_for(self, gradients: Sequence[Gradient]) -> list[Slot]:
        """Returns the accumulators of this replica. If there are none, the gradients make them.

        Raises:
            RuntimeError: It is called outside of the functions that the strategy runs on replicas.
            ValueError: The accumulator of a variable takes ``tf.IndexedSlices`` only.
        """
        replica = self._replica()
        if replica not in self._slots:
            # Error messages of the operations contain the names of the accumulators.
            names = [f"{self._name}/{_as_op_name(variable)}" for variable in self._variables]
            slots = replicas.make_slots(
                replica, names, self._variables, gradients, self._reduction_type
            )
            for position, slot in enumerate(slots):
                self._track_trackable(slot.accumulator, f"replica_{replica}_{position}")
            self._slots[replica], self._strategy = slots, replicas.own_strategy()
        slots = self._slots[replica]
        for gradient, slot, variable in zip(gradients, slots, self._variables, strict=True):
            if not slot.is_dense and not isinstance(gradient, tf.IndexedSlices):
                raise ValueError(
                    f"{gradient_title(self._title, variable)} is a tensor, expected "
                    "tf.IndexedSlices as in the first micro-batch."
                )
        return slots

    def weight_sum_made(self) -> WeightSum | None:
        """Returns the weights of this replica, which the first call makes; None for sums.

        Raises:
            RuntimeError: A function was traced that takes means without dividing by weights.
        """
        replica = self._replica()
        if self._reduction_type == "MEAN" and replica not in self._weights:
            if self._is_traced_without_weights:
                raise RuntimeError(
                    f"{self._title}: the first weight is given after a function was traced that "
                    "takes gradients, which would not divide by weights. Give weights in the "
                    "first function that is traced; a micro-batch without one has weight=1.0."
                )
            weights = WeightSum(f"{self._name}/weights", replica)
            self._track_trackable(weights.accumulator, f"replica_{replica}_weights")
            self._weights[replica] = weights
        return self._weights.get(replica)

    def apply(self, micro_batch: MicroBatch) -> list[tf.Tensor]:
        """Applies the gradients of a micro-batch to the accumulators of this replica.

        Returns:
            Whether each gradient, and the weight, was added: `[] bool` each.
        """
        step = local_step(micro_batch.is_skipped)
        applied = self._apply_sparse_and_weight(micro_batch, step)
        with tf.control_dependencies(applied[-1:]):
            return applied + [
                slot.apply(gradient, micro_batch.weight, step)
                for slot, gradient in micro_batch.targets()
                if slot.is_dense
            ]

    def apply_and_take(
        self, micro_batch: MicroBatch, num_required: TensorLike, num_accumulated: tf.Tensor
    ) -> list[Gradient]:
        """Applies the gradients of a micro-batch, and takes what the accumulators then have.

        Args:
            micro_batch: The micro-batch.
            num_required: Number of micro-batches that are enough: `[] int32`.
            num_accumulated: Number of micro-batches of this replica, this one included: `[] int32`.
        """
        step = local_step(micro_batch.is_skipped)
        applied = self._apply_sparse_and_weight(micro_batch, step)
        with (
            tf.control_dependencies(applied[-1:]),
            self._weights_taken(num_required, num_accumulated) as (required, factor),
        ):
            return [
                slot.apply_and_take(gradient, micro_batch.weight, step, required, factor)
                if slot.is_dense
                else slot.take(required, factor)
                for slot, gradient in micro_batch.targets()
            ]

    def take(
        self, slots: Sequence[Slot], num_required: TensorLike, num_accumulated: tf.Tensor
    ) -> list[Gradient]:
        """Takes what the accumulators of this replica have. It has been checked to be enough.

        Args:
            slots: The accumulators.
            num_required: Number of micro-batches that are enough: `[] int32`.
            num_accumulated: Number of micro-batches of this replica: `[] int32`.
        """
        with self._weights_taken(num_required, num_accumulated) as (required, factor):
            return [slot.take(required, factor) for slot in slots]

    def of_this_replica(self) -> list[Slot] | None:
        """Returns the accumulators of the replica that calls; None if it has none yet."""
        return self._slots.get(self._replica())

    def of_first_replica(self) -> list[Slot] | None:
        """Returns the accumulators of the first replica of this process; None if there are none."""
        return next(iter(self._slots.values()), None)

    def of_any_replica(self) -> list[Slot] | None:
        """Returns the accumulators of this replica, or of the first one between steps."""
        strategy = replicas.own_strategy()
        in_scope = strategy is self._strategy and tf.distribute.in_cross_replica_context()
        if self._strategy is not None and (in_scope or strategy is None):
            return self.of_first_replica()
        return self.of_this_replica()

    def reset(self) -> None:
        """Discards the gradients and weights of all replicas of this process."""
        for slot in (slot for slots in self._slots.values() for slot in slots):
            slot.accumulator.reset(0)
        for weights in self._weights.values():
            weights.accumulator.reset(0)

    def emptied(self, variables: Sequence[VariableLike]) -> ReplicaAccumulators:
        """Returns an object for other variables, under the same strategy, without accumulators."""
        made = ReplicaAccumulators(self._title, self._name, variables, self._reduction_type)
        made._strategy = self._strategy
        return made

    def _apply_sparse_and_weight(self, micro_batch: MicroBatch, step: tf.Tensor) -> list[tf.Tensor]:
        """Applies the sparse gradients and the weight, one after another.

        The dense gradients are applied afterwards: they have been checked, but the indices of
        sparse gradients are checked only when they are applied.

        Returns:
            Whether each was added: `[] bool` each.
        """
        applied: list[tf.Tensor] = []
        for slot, gradient in micro_batch.targets():
            if not slot.is_dense:
                with tf.control_dependencies(applied[-1:]):
                    applied.append(slot.apply(gradient, micro_batch.weight, step))
        if micro_batch.weight_sum is not None:
            with tf.control_dependencies(applied[-1:]):
                applied.append(micro_batch.weight_sum.add(micro_batch.weight, step))
        return applied

    @contextlib.contextmanager
    def _weights_taken(
        self, num_required: TensorLike, num_accumulated: tf.Tensor
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor | None]]:
        """Takes the weights, and returns a context to take the gradients in.

        Yields:
            The number of micro-batches that are enough, `[] int32`, and the factor of this
            replica's means, `[] float64` or None.
        """
        factor = self._take_factor(num_accumulated)
        with arguments_on_host():  # All takes share a constant.
            required = tf.convert_to_tensor(num_required, tf.int32)
        with tf.control_dependencies([] if factor is None else [factor]):
            yield required, factor

    def _take_factor(self, num_accumulated: tf.Tensor) -> tf.Tensor | None:
        """Takes the weights, and returns the factor of this replica's means; None for 1.

        Args:
            num_accumulated: Number of micro-batches of this replica: `[] int32`.
        """
        weights = self._weights.get(self._replica())
        if weights is not None:
            return weights.take_factor(num_accumulated)
        self._is_traced_without_weights |= not tf.executing_eagerly()
        return None

    def _replica(self) -> int:
        """Returns the number of the replica that executes the calling function."""
        context, strategy = tf.distribute.get_replica_context(), replicas.own_strategy()
        expected = self._strategy
        if strategy is not None:
            self._check_has_common_updates(strategy)
        if context is None:
            raise RuntimeError(
                f"{self._title} is used outside of a function that {replicas.described(strategy)} "
                "runs on replicas. Use it in the function that is passed to strategy.run."
            )
        # As long as there are no accumulators, another strategy may replace the default one.
        if strategy is not expected and (expected is not None or self._slots):
            another = "another " if type(strategy) is type(expected) else ""
            raise RuntimeError(
                f"{self._title} was made or first used under {replicas.described(expected)}, but "
                f"is now used under {another}{replicas.described(strategy)}. Use it in functions "
                "that are passed to strategy.run of the same strategy."
            )
        return int(tf.get_static_value(context.replica_id_in_sync_group))

    def _check_has_common_updates(self, strategy: tf.distribute.Strategy) -> None:
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            raise RuntimeError(
                f"{self._title} does not work under ParameterServerStrategy, whose workers make no "
                "common updates. Make a ConditionalAccumulator beside each variable."
            )

    def _check_is_outside_replicas(self) -> None:
        """Checks that replicas make common updates, and that they can share this object."""
        self._check_has_common_updates(tf.distribute.get_strategy())
        if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
            strategy = replicas.described(replicas.own_strategy())
            raise RuntimeError(
                f"{self._title} is made in a function that {strategy} runs on replicas, so each "
                "replica would have another one. Make it outside, such as in strategy.scope()."
            )


def _as_op_name(variable: VariableLike) -> str:
    """Returns the name of a variable with "_" for characters that op names cannot contain."""
    return re.sub(r"[^\w./-]", "_", name_of(variable).removesuffix(":0"))
