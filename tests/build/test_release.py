"""Tests of how the results of `make test-versions` are noted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from condacc import libraries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "release"))

import versions  # noqa: E402  (release/versions.py)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "install.md"
    file.write_text(f"# Page\n\n{versions.TABLE}\n|---|\n\nThe end.\n")
    monkeypatch.setattr(versions, "PAGE", file)
    return file


def test_each_run_has_a_row_which_the_next_one_replaces(page: Path):
    versions.note("2.20", "3.10", ["2.20.0", "3.10.1", "3.1", "2.0"], "2 failed, 1234 passed in 9s")
    versions.note("2.15", "3.11", ["2.15.1", "3.11.2", "2.15.0", "1.26"], "5 passed, 1 error in 9s")
    versions.note("2.15", "3.10", ["2.15.1", "3.10.1", "2.15.0", "1.26"], "7 passed, 3 skipped")
    versions.note("2.20", "3.10", ["2.20.1", "3.10.2", "3.1", "2.0"], "1236 passed, 64 skipped")
    begin, _, rest = page.read_text().partition("|---|\n")
    rows, _, end = rest.partition("\n\n")
    assert [row.rpartition("| 20")[0] for row in rows.splitlines()] == [
        "| 2.15.1 | 3.10.1 | 2.15.0 | 1.26 | 7 | 3 | 0 ",
        "| 2.15.1 | 3.11.2 | 2.15.0 | 1.26 | 5 | 0 | 1 ",
        "| 2.20.1 | 3.10.2 | 3.1 | 2.0 | 1,236 | 64 | 0 ",
    ]
    assert (begin, end) == (f"# Page\n\n{versions.TABLE}\n", "The end.\n")


def test_the_table_is_in_the_page_and_each_release_has_pythons():
    assert versions.TABLE in (ROOT / "docs" / "install.md").read_text().splitlines()
    assert tuple(versions.PYTHONS) == libraries.SUPPORTED
