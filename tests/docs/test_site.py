"""Tests of what `make docs` does not check: the navigation lists no page twice and each module."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import tf_condacc

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
    names = [f"tf_condacc.{name}" for name in tf_condacc.__all__]
    modules = [name for name in names if importlib.util.find_spec(name)]
    assert {"tf_condacc", *modules} <= {Path(page).stem for page in _pages()}
