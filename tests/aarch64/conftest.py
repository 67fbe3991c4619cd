"""Fixtures: the tools for aarch64, and programs that they have made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "release"))

from aarch64 import Tools, UnavailableError  # noqa: E402  (release/aarch64.py)

from tests.aarch64 import programs  # noqa: E402


@pytest.fixture(scope="session")
def tools() -> Tools:
    """The tools. The tests are skipped, with the reason, where they cannot be had."""
    try:
        return Tools()
    except UnavailableError as error:
        pytest.skip(f"no tools for aarch64: {error}")


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder for objects and programs. It is kept, so that they can be looked at."""
    return ROOT / "build" / "aarch64"


@pytest.fixture(scope="session")
def core_programs(tools: Tools, folder: Path) -> dict[str, Path]:
    """The programs of the core's tests, and those of this folder, by name."""
    gtest = [
        tools.sysroot / "usr/lib/aarch64-linux-gnu" / f"lib{name}.a"
        for name in ("gtest_main", "gtest")
    ]
    parts = {**programs.core_parts(), **programs.test_parts(), **programs.own_parts()}
    wanted = {**programs.test_programs(), **programs.own_programs()}
    return programs.make(parts, wanted, folder, tools.compiler, gtest)
