"""Optimizers for workers that train asynchronously, each in a package of its own."""

from tf_condacc.optimizers.drop_stale import DropStaleGradientOptimizer

__all__ = ["DropStaleGradientOptimizer"]
