"""Conditional accumulators of dense and sparse gradients, and their placement.

Mirrors ``tf.compat.v1.ConditionalAccumulator``, ``tf.compat.v1.SparseConditionalAccumulator`` and
``tf.compat.v1.train.replica_device_setter``.
"""

from tf_condacc.accumulators.base import ConditionalAccumulatorBase, TryTakeResult
from tf_condacc.accumulators.contributions import ApplyOutcome
from tf_condacc.accumulators.dense import ConditionalAccumulator
from tf_condacc.accumulators.gradient_accumulator import GradientAccumulator
from tf_condacc.accumulators.placement import replica_device_setter
from tf_condacc.accumulators.sparse import SparseConditionalAccumulator, SparseGradient

__all__ = [
    "ApplyOutcome",
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "GradientAccumulator",
    "SparseConditionalAccumulator",
    "SparseGradient",
    "TryTakeResult",
    "replica_device_setter",
]
