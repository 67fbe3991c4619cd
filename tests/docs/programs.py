"""The programs that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs_of(page: str) -> list[str]:
    """Returns the programs of a page, such as "docs/guides/usage.md"."""
    return PROGRAM.findall((ROOT / page).read_text(encoding="utf-8"))
