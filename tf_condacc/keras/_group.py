"""The variables that one call of an optimizer updates, and the accumulator of their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._accumulators import replicas
from tf_condacc._accumulators.gradient_accumulator import GradientAccumulator
from tf_condacc._typing import Gradient


class Group:
    """Variables that are updated together. It is made outside of the replicas.

    Args:
        name: Name of the model.
        variables: The variables.
        num_micro_batches: Number of micro-batches that make an update.
        reduction_type: "MEAN" or "SUM", for the gradients of micro-batches.
    """

    def __init__(
        self, name: str, variables: list[Any], num_micro_batches: int, reduction_type: str
    ) -> None:
        self._variables = variables
        self._is_mean = reduction_type == "MEAN"
        self._accumulator = GradientAccumulator(variables, num_micro_batches, reduction_type, name)

    def apply_gradients(
        self, optimizer: Any, gradients: Sequence[Gradient], weight: tf.Tensor | None
    ) -> None:
        """Accumulates the gradients of a micro-batch on a replica, and makes an update if due.

        Args:
            optimizer: The optimizer.
            gradients: The gradient of each variable.
            weight: By what the loss of the micro-batch was divided: `[] float32`; None for 1. It
                does not matter to a sum.
        """
        self._accumulator.apply_gradients(
            optimizer, gradients, weight=weight if self._is_mean else None
        )

    def apply_remainder(self, optimizer: Any, strategy: tf.distribute.Strategy) -> None:
        """Makes an update from the micro-batches that are left over, if there are any."""

        def update() -> None:
            taken = replicas.without_repeated_rows(self._accumulator.take(num_required=1))
            optimizer.apply_gradients(list(zip(taken, self._variables, strict=True)))

        numbers = strategy.run(self._accumulator.num_accumulated)
        if strategy.experimental_local_results(numbers)[0] > 0:
            strategy.run(update)

    def discard_remainder(self) -> None:
        """Discards what all replicas have accumulated."""
        self._accumulator.reset()
