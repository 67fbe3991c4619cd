"""Fixtures of the tests of `SyncReplicasOptimizer`."""

from tests.sync_replicas.training import place, training, two_ps

__all__ = ["place", "training", "two_ps"]
