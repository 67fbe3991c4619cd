"""Fixtures of the tests of `SyncReplicasOptimizer`."""

import pytest

from tests.support.times import set_cluster_times
from tests.sync_replicas.training import training, two_ps
from tf_condacc import _times

__all__ = ["training", "two_ps"]


@pytest.fixture(autouse=True)
def patient_sessions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the ends of sessions wait for gates whose servers are in this process, and so answer."""
    if request.node.get_closest_marker("isolated") is None:
        monkeypatch.setattr(_times, "current", _times.current)  # It is restored afterwards.
        set_cluster_times()
