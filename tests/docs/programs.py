"""The programs that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs_of(page: str) -> list[str]:
    """Returns the programs of a page, such as "docs/guides/usage.md"."""
    return PROGRAM.findall((ROOT / page).read_text(encoding="utf-8"))


def printed_by(program: str) -> list[str]:
    """Returns what a program prints, which its comments after calls of `print` say."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
