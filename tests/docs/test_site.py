"""Tests of what `make docs` does not check: the navigation lists no page twice and each module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.package.test_public_names import public_modules

_ROOT = Path(__file__).resolve().parents[2]


def _pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages_of(entry)


def _pages() -> list[str]:
    site = yaml.safe_load((_ROOT / "mkdocs.yml").read_text("utf-8"))
    return list(_pages_of(site["nav"]))


def test_the_navigation_lists_no_page_twice():
    assert [page for page, number in Counter(_pages()).items() if number > 1] == []


def test_each_public_module_has_a_page():
    # What condacc run puts in the place of TensorFlow's names is described on the pages about it.
    modules = [name for name in public_modules() if not name.startswith("tf_condacc.compat.")]
    assert set(modules) <= {Path(page).stem for page in _pages()}
