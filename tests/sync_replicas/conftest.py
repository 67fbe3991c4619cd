"""Fixtures of the tests of `SyncReplicasOptimizer`."""

from tests.support.sync_replicas_cluster import place, training, two_ps

__all__ = ["place", "training", "two_ps"]
