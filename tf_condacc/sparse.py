"""Public path of the sparse accumulator; see `tf_condacc.accumulators.sparse`."""

from tf_condacc.accumulators.sparse import SparseConditionalAccumulator, SparseGradient

__all__ = ["SparseConditionalAccumulator", "SparseGradient"]
