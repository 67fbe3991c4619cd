"""Training with micro-batches, whose gradients accumulators collect."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase
from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._setup import Run, Way, on_cpu
from tf_condacc.parity._training import Training
from tf_condacc.sparse import SparseConditionalAccumulator


def accumulators(num_micro_batches: int = 2, sparse_reduction: str = "GLOBAL_MEAN") -> Way:
    """Returns the way that applies the gradients of micro-batches to accumulators.

    After the last micro-batch, the optimizer applies what the accumulators hold: means, or sums if
    the loss is a sum over examples. ``tf.IndexedSlices`` go to a `SparseConditionalAccumulator`.

    Args:
        num_micro_batches: Number of equal parts of each batch.
        sparse_reduction: How sparse gradients are averaged: "GLOBAL_MEAN", or "MEAN" as in
            TensorFlow's own class, which divides each row by the number of gradients that have it.
    """
    name = f"accumulators with {num_micro_batches} micro-batches"
    if sparse_reduction != "GLOBAL_MEAN":
        name += f" (sparse {sparse_reduction})"

    @on_cpu
    def begin(training: Training) -> Run:
        model, optimizer = training.new_model(), training.optimizer()
        variables: list[Any] = []  # Those that have gradients, in the order of the accumulators.
        made: list[ConditionalAccumulatorBase] = []
        dense, sparse = "MEAN", sparse_reduction
        if training.reduction == "sum":
            dense = sparse = "SUM"

        @tf.function
        def gradients(features: Nested, labels: Nested) -> list[Any]:
            pairs = training.gradients(model, features, labels)
            variables[:] = [variable for _, variable in pairs]
            return [gradient for gradient, _ in pairs]

        def make(gradient: Any, variable: Any) -> ConditionalAccumulatorBase:
            if isinstance(gradient, tf.IndexedSlices):
                return SparseConditionalAccumulator(
                    gradient.dtype, variable.shape, reduction_type=sparse
                )
            return ConditionalAccumulator(gradient.dtype, variable.shape, reduction_type=dense)

        def step(features: Nested, labels: Nested) -> None:
            for part in _batches.split(features, labels, num_micro_batches, name):
                found = gradients(*part)
                if not made:
                    made.extend(map(make, found, variables))
                for accumulator, gradient in zip(made, found, strict=True):
                    _apply(accumulator, gradient)
            taken = [_take(accumulator, num_micro_batches) for accumulator in made]
            optimizer.apply_gradients(list(zip(taken, variables, strict=True)))

        return Run(model.variables, step)

    return Way(name, begin)


def _apply(accumulator: Any, gradient: Any) -> None:
    """Applies a gradient at the accumulator's own step."""
    local_step = accumulator.global_step()
    if isinstance(gradient, tf.IndexedSlices):
        accumulator.apply_indexed_slices_grad(gradient, local_step)
    else:
        accumulator.apply_grad(gradient, local_step)


def _take(accumulator: Any, number: int) -> Any:
    if isinstance(accumulator, SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(number)
    return accumulator.take_grad(number)
