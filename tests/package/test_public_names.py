"""Each public name has one path, is in `__all__`, and is documented."""

from __future__ import annotations

import collections
import importlib
import inspect
import pkgutil
import sys
from types import ModuleType
from typing import Any

import pytest

import tf_condacc

# Modules that mirror a second path of the original.
SECOND_PATHS = ("tf_condacc.sparse",)


def public_modules() -> list[str]:
    """Returns the names of the package and of all its modules that are not private."""
    found = [module.name for module in pkgutil.walk_packages(tf_condacc.__path__, "tf_condacc.")]
    return ["tf_condacc", *(name for name in found if "._" not in name)]


MODULES = public_modules()


def definitions(module: ModuleType) -> dict[str, Any]:
    """Returns the classes and functions that a module publishes, judged by their names.

    These are its own and, if it is a package, those of other modules that it imports.
    """
    sources = ("tf_condacc", "condacc") if hasattr(module, "__path__") else (module.__name__,)
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and value.__module__.startswith(sources)
    }


def published(module: ModuleType) -> list[str]:
    """Returns the names in `__all__`, or those of the definitions of a module without it."""
    return getattr(module, "__all__", None) or sorted(definitions(module))


@pytest.mark.parametrize("name", MODULES)
def test_all_of_a_module_is_complete_and_sorted(name):
    module = importlib.import_module(name)
    names = published(module)
    assert set(definitions(module)) <= set(names)
    assert all(hasattr(module, each) for each in names)
    # Ruff's order: constants, classes, then all others.
    assert names == sorted(
        names, key=lambda each: (not each.isupper(), not each[0].isupper(), each)
    )


def test_each_public_object_has_one_path():
    paths = collections.defaultdict(list)
    for name in MODULES:
        module = importlib.import_module(name)
        for each in published(module):
            value = getattr(module, each)
            if name not in SECOND_PATHS and not isinstance(value, ModuleType):
                paths[id(value)].append(f"{name}.{each}")
    assert [found for found in paths.values() if len(found) > 1] == []


def test_what_public_methods_return_is_public():
    assert {"ApplyOutcome", "SparseGradient", "TryTakeResult"} <= set(tf_condacc.__all__)


def test_no_private_module_has_a_public_alias():
    loaded = {name for name in sys.modules if name.startswith("tf_condacc.") and "._" not in name}
    assert loaded <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_public_modules_classes_functions_and_methods_have_docstrings(name):
    module = importlib.import_module(name)
    missing = [] if module.__doc__ else [name]
    for each in published(module):
        value = getattr(module, each)
        if inspect.isclass(value):
            parts = {each: value, **{f"{each}.{part}": x for part, x in _methods(value).items()}}
        else:
            parts = {each: value} if inspect.isroutine(value) else {}
        missing += [part for part, x in parts.items() if not inspect.getdoc(x)]
    assert missing == []


def _methods(cls: type) -> dict[str, Any]:
    """Returns the public methods and properties that a class defines itself.

    The docstring of a dataclass describes its fields.
    """
    return {
        name: value
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and name not in getattr(cls, "__dataclass_fields__", ())
        and (inspect.isroutine(value) or isinstance(value, property))
    }
