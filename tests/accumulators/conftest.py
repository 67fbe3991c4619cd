"""Fixtures of the tests of accumulators."""

from __future__ import annotations

import pytest

from tests.support.clusters import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> LocalCluster:
    """Returns a parameter server and a worker. Servers cannot stop, so tests share them."""
    return LocalCluster(num_ps=1, num_workers=1)
