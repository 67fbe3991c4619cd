"""The sparse accumulator by the path that mirrors ``tf.sparse.SparseConditionalAccumulator``."""

from tf_condacc._accumulators.sparse import SparseConditionalAccumulator

__all__ = ["SparseConditionalAccumulator"]
