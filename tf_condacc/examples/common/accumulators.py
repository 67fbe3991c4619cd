"""One accumulator per variable: what workers push into and the chief takes from."""

from __future__ import annotations

import tensorflow as tf

from tf_condacc.examples.common.backends import AccumulatorClass


class Accumulators:
    """One accumulator per variable, all of one class: dense or sparse."""

    def __init__(self, accumulator_class: AccumulatorClass, variables: list[tf.Variable]):
        self.variables = variables
        # The shared name lets every session on the server find the same accumulator.
        self.every = [
            accumulator_class(v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient")
            for v in variables
        ]
        self._is_sparse = hasattr(accumulator_class, "apply_indexed_slices_grad")

    def push(self, loss: tf.Tensor, local_step: tf.Tensor) -> list[tf.Operation]:
        """A worker's side: the gradients of ``loss``, dropped if ``local_step`` is behind."""
        gradients = tf.gradients(loss, self.variables)
        method = "apply_indexed_slices_grad" if self._is_sparse else "apply_grad"
        return [
            getattr(accumulator, method)(gradient, local_step=local_step)
            for accumulator, gradient in zip(self.every, gradients, strict=True)
        ]

    def take(self, num_required: int) -> list[tuple[tf.Tensor | tf.IndexedSlices, tf.Variable]]:
        """The chief's side: (mean gradient, variable) pairs."""
        method = "take_indexed_slices_grad" if self._is_sparse else "take_grad"
        means = [getattr(accumulator, method)(num_required) for accumulator in self.every]
        return list(zip(means, self.variables, strict=True))
