"""The accumulators of a model's variables, with the operations of workers and chief."""

from __future__ import annotations

import tensorflow as tf

from tf_condacc.examples.common.backends import AccumulatorClass


class Accumulators:
    """One accumulator per variable, all of the same class.

    Args:
        accumulator_class: Class of dense or of sparse accumulators.
        variables: The variables.
    """

    def __init__(self, accumulator_class: AccumulatorClass, variables: list[tf.Variable]):
        self.variables = variables
        # Through the shared name, all sessions on the server use the same accumulator.
        self.every = [
            accumulator_class(v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient")
            for v in variables
        ]
        self._is_sparse = hasattr(accumulator_class, "apply_indexed_slices_grad")

    def push(self, loss: tf.Tensor, local_step: tf.Tensor) -> list[tf.Operation]:
        """Returns the operations with which a worker applies its gradients.

        Args:
            loss: The loss of the worker's batch: `[] float`.
            local_step: The worker's local step: `[] int64`.
        """
        gradients = tf.gradients(loss, self.variables)
        pairs = zip(self.every, gradients, strict=True)
        if self._is_sparse:
            return [each.apply_indexed_slices_grad(g, local_step=local_step) for each, g in pairs]
        return [each.apply_grad(g, local_step=local_step) for each, g in pairs]

    def take(self, num_required: int) -> list[tuple[tf.Tensor | tf.IndexedSlices, tf.Variable]]:
        """Returns pairs of the mean gradient that the chief takes, and its variable.

        Args:
            num_required: Number of gradients to wait for.
        """
        if self._is_sparse:
            means = [each.take_indexed_slices_grad(num_required) for each in self.every]
        else:
            means = [each.take_grad(num_required) for each in self.every]
        return list(zip(means, self.variables, strict=True))
