"""The launcher, for all tests of it."""

from __future__ import annotations

import pytest

from tests.processes.launched import launchers


@pytest.fixture
def launch(tmp_path):
    yield from launchers(tmp_path)
