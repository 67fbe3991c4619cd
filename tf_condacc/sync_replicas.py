"""Public path of `SyncReplicasOptimizer`; see `tf_condacc.optimizers.sync_replicas`."""

from tf_condacc.optimizers.sync_replicas import SyncReplicasOptimizer

__all__ = ["SyncReplicasOptimizer"]
