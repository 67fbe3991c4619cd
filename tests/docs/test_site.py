"""Tests of what `make docs` makes a site of: its navigation leads to each page once."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import tf_condacc
from tests.support.versions import needs_keras3

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_OUTSIDE_DOCS = ("index.md", "changelog.md", "contributing.md")  # docs/site/hooks.py adds them.


def _pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages_of(entry)


def _pages() -> list[str]:
    site = yaml.safe_load((_ROOT / "mkdocs.yml").read_text("utf-8"))
    return list(_pages_of(site["nav"]))


def _modules() -> list[str]:
    return [Path(page).stem for page in _pages() if page.startswith("api/")]


def test_the_navigation_lists_each_page_once():
    listed = Counter(page for page in _pages() if not page.startswith("api/"))
    pages = [path.relative_to(_DOCS).as_posix() for path in _DOCS.rglob("*.md")]
    assert listed == Counter([*pages, *_OUTSIDE_DOCS])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=needs_keras3) if n.endswith(".keras") else n for n in _modules()],
)
def test_each_page_of_the_api_describes_a_module(name):
    assert importlib.import_module(name).__doc__


def test_each_public_module_has_a_page():
    names = [f"tf_condacc.{name}" for name in tf_condacc.__all__]
    modules = [name for name in names if importlib.util.find_spec(name)]
    assert {"tf_condacc", *modules} <= set(_modules())
