"""The table of docs/guides/keras.md is what its program prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_page_shows_what_the_program_prints():
    program = ROOT / "benchmarks" / "keras_accumulation.py"
    printed = subprocess.check_output([sys.executable, program], text=True).splitlines()
    page = (ROOT / "docs" / "guides" / "keras.md").read_text(encoding="utf-8").splitlines()
    assert len(printed) == 15
    for line in printed[:-1]:
        assert line in page
    name = printed[-1].split("|")[1]  # How much memory is used varies.
    assert any(line.split("|")[1:2] == [name] for line in page)
