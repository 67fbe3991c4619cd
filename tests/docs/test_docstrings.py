"""The examples of the docstrings print what they say, and each public class has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.versions import needs_keras3

_ROOT = Path(tf_condacc.__file__).parent


def _modules() -> list[str]:
    """Returns the names of the modules that have examples."""
    files = [path for path in sorted(_ROOT.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    names = [".".join(path.relative_to(_ROOT.parent).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in names]


def _examples() -> list[Any]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    globs = {"tf": tf, "tf_condacc": tf_condacc}
    return [
        pytest.param(test, marks=needs_keras3) if ".keras." in name else test
        for name in _modules()
        for test in finder.find(importlib.import_module(name), name, globs=globs)
        if test.examples
    ]


@pytest.mark.parametrize("example", _examples(), ids=lambda test: test.name)
def test_examples_of_docstrings_print_what_they_say(example, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed, tried = runner.run(example, clear_globs=True)
    assert tried and not failed, capsys.readouterr().out


@pytest.mark.parametrize("name", tf_condacc.__all__)
def test_each_public_class_shows_how_it_is_used(name):
    public = getattr(tf_condacc, name)
    if not inspect.isclass(public) or public is tf_condacc.ConditionalAccumulatorBase:
        return
    assert ">>>" in public.__doc__, f"{name} has no example"
