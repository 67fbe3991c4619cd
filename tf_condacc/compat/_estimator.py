"""What ``tf.estimator`` and ``tensorflow.python.estimator`` are for legacy programs."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from condacc.extras import INSTALL_ESTIMATOR
from condacc.originals import ESTIMATOR_MODULES, NAMES, resolve
from condacc.versions import has_module
from tf_condacc.compat._errors import MissingModuleError, MissingNameError
from tf_condacc.compat._tensorflow_estimator import API, PACKAGE, FixedModule, import_package

_PYTHON = "tensorflow.python.estimator"
# Modules of the package that were there before `estimator_module` imported it.
_before: set[str] = set()
# Modules that `undo` has taken out of `sys.modules`. They cannot be imported twice, because they
# register metrics with TensorFlow.
_kept: dict[str, ModuleType] = {}


def estimator_module() -> ModuleType:
    """Returns the module that stands for ``tf.estimator``.

    Returns:
        The API of version 1 of the package tensorflow_estimator, if that is installed. It is
        imported as it is; only its decorator that deprecates everything is left out. Its
        Estimator accepts `tf_condacc.estimator.EstimatorSpec` as well, and its RunConfig accepts a
        cluster without a job "chief", whose chief is worker 0.

        Otherwise a module with what `tf_condacc.estimator` has. Its other names raise an
        AttributeError that says how to install the package.
    """
    if API in sys.modules:
        return sys.modules[API]
    if not _kept and not has_module(PACKAGE):
        return own_estimator()
    _before.update(_modules())
    if _kept:
        sys.modules.update(_kept)
        _kept.clear()
    else:
        import_package()
    return sys.modules[API]


def undo() -> None:
    """Takes the package out of `sys.modules`, if `estimator_module` has imported it."""
    if API in _modules() and API not in _before:
        _kept.update({name: each for name, each in _modules().items() if name not in _before})
        for name in _kept:
            del sys.modules[name]
    _before.clear()


def _modules() -> dict[str, ModuleType]:
    """Returns the modules of the package that have been imported, by their names."""
    return {name: module for name, module in sys.modules.items() if _is_of_package(name) and module}


def _is_of_package(name: str) -> bool:
    return name.partition(".")[0] == PACKAGE


@functools.cache
def own_estimator() -> ModuleType:
    """Returns a module with the names of ``tf.estimator`` that need no further package."""
    parts = ("estimator", "estimator.export", "estimator.inputs")
    top, export, inputs = (
        {name: resolve(place) for name, place in NAMES[part].items()} for part in parts
    )
    top["export"] = _own_module("tf.estimator.export", export)
    top["inputs"] = _own_module("tf.estimator.inputs", inputs)
    return _own_module("tf.estimator", top)


def _own_module(name: str, contents: Mapping[str, Any]) -> ModuleType:
    return FixedModule(
        name,
        contents,
        f"needs the package tensorflow-estimator, which is missing: {INSTALL_ESTIMATOR}. "
        f"tf_condacc itself has {', '.join(sorted(contents))}.",
    )


def public_module(estimator: ModuleType, path: str) -> ModuleType | None:
    """Returns a module of ``tf.estimator``, or None if there is none.

    Args:
        estimator: The module that ``tf.estimator`` is.
        path: Path of the module below it; "" for the module itself.
    """
    found: Any = estimator
    for name in filter(None, path.split(".")):
        found = getattr(found, name, None)
    return found if isinstance(found, ModuleType) else None


def private_module(estimator: ModuleType, path: str) -> ModuleType:
    """Returns a module of ``tensorflow.python.estimator``.

    Args:
        estimator: The module that ``tf.estimator`` is.
        path: Path of the module below ``tensorflow.python.estimator``.

    Raises:
        MissingModuleError: There is no such module.
    """
    if estimator.Estimator.__module__.startswith(PACKAGE):
        name = f"{PACKAGE}.python.estimator.{path}".rstrip(".")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise MissingModuleError(f"{_PYTHON}.{path} is not provided: {error}") from error
    if path in ESTIMATOR_MODULES:
        return _PrivateModule(estimator, path)
    raise MissingModuleError(
        f"{_PYTHON}.{path} is not provided. Use tf.estimator, or install the package "
        f"tensorflow-estimator: {INSTALL_ESTIMATOR}."
    )


class _PrivateModule(ModuleType):
    """A module whose names are those of ``tf.estimator`` and of its modules."""

    __path__: list[str] = []

    def __init__(self, estimator: ModuleType, path: str) -> None:
        super().__init__(f"{_PYTHON}.{path}" if path else _PYTHON)
        self._path = path
        self._places = (estimator, estimator.export, estimator.inputs)

    def __getattr__(self, name: str) -> Any:
        below = f"{self._path}.{name}" if self._path else name
        if not name.startswith("__") and below in ESTIMATOR_MODULES:
            return importlib.import_module(f"{_PYTHON}.{below}")
        for place in self._places:
            if not name.startswith("__") and hasattr(place, name):
                return getattr(place, name)
        raise MissingNameError(
            f"{self.__name__}.{name} is not provided. Use tf.estimator, or install the package "
            f"tensorflow-estimator: {INSTALL_ESTIMATOR}.",
            name=name,
            obj=self,
        )
