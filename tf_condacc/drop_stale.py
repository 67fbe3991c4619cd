"""Public path of `DropStaleGradientOptimizer`; see `tf_condacc.optimizers.drop_stale`."""

from tf_condacc.optimizers.drop_stale import DropStaleGradientOptimizer

__all__ = ["DropStaleGradientOptimizer"]
