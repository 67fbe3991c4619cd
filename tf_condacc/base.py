"""Public path of the accumulators' base class; see `tf_condacc.accumulators.base`."""

from tf_condacc.accumulators.base import ConditionalAccumulatorBase, TryTakeResult, make_accumulator

__all__ = ["ConditionalAccumulatorBase", "TryTakeResult", "make_accumulator"]
