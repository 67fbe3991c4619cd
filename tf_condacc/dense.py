"""Public path of the dense accumulator; see `tf_condacc.accumulators.dense`."""

from tf_condacc.accumulators.dense import ConditionalAccumulator

__all__ = ["ConditionalAccumulator"]
