"""Optimizers that combine the gradients of several workers, each in a package of its own."""

from tf_condacc.optimizers.drop_stale import DropStaleGradientOptimizer
from tf_condacc.optimizers.sync_replicas import SyncReplicasOptimizer

__all__ = ["DropStaleGradientOptimizer", "SyncReplicasOptimizer"]
