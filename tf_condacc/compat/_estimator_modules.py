"""Modules below ``tf.estimator`` and the private ``tensorflow.python.estimator``."""

from __future__ import annotations

import importlib
import types
from typing import Any

from tf_condacc.compat._errors import INSTALL_ESTIMATOR, MissingModuleError, MissingNameError

_ROOT = "tensorflow.python.estimator"
_PACKAGE = "tensorflow_estimator"
# The private modules of which our Estimator has the names.
_PRIVATE = frozenset(
    {
        "",
        "estimator",
        "estimator_lib",
        "export",
        "export.export",
        "export.export_lib",
        "export.export_output",
        "exporter",
        "inputs",
        "inputs.numpy_io",
        "model_fn",
        "run_config",
        "training",
    }
)


def public_module(estimator: types.ModuleType, path: str) -> types.ModuleType | None:
    """Returns a module of ``tf.estimator``, or None if there is none.

    Args:
        estimator: The module that ``tf.estimator`` is.
        path: Path of the module below it; "" for the module itself.
    """
    found: Any = estimator
    for name in filter(None, path.split(".")):
        found = getattr(found, name, None)
    return found if isinstance(found, types.ModuleType) else None


def private_module(estimator: types.ModuleType, path: str) -> types.ModuleType:
    """Returns a module of ``tensorflow.python.estimator``.

    Args:
        estimator: The module that ``tf.estimator`` is.
        path: Path of the module below ``tensorflow.python.estimator``.

    Raises:
        MissingModuleError: There is no such module.
    """
    if estimator.Estimator.__module__.startswith(_PACKAGE):
        name = f"{_PACKAGE}.python.estimator.{path}".rstrip(".")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise MissingModuleError(f"{_ROOT}.{path} is not provided: {error}") from error
    if path in _PRIVATE:
        return _PrivateModule(estimator, path)
    raise MissingModuleError(
        f"{_ROOT}.{path} is not provided. Use tf.estimator, or install the package "
        f"tensorflow-estimator: {INSTALL_ESTIMATOR}."
    )


class _PrivateModule(types.ModuleType):
    """A module whose names are those of ``tf.estimator`` and of its modules."""

    __path__: list[str] = []

    def __init__(self, estimator: types.ModuleType, path: str) -> None:
        super().__init__(f"{_ROOT}.{path}" if path else _ROOT)
        self._path = path
        self._places = (estimator, estimator.export, estimator.inputs)

    def __getattr__(self, name: str) -> Any:
        below = f"{self._path}.{name}" if self._path else name
        if not name.startswith("__") and below in _PRIVATE:
            return importlib.import_module(f"{_ROOT}.{below}")
        for place in self._places:
            if not name.startswith("__") and hasattr(place, name):
                return getattr(place, name)
        raise MissingNameError(
            f"{self.__name__}.{name} is not provided. Use tf.estimator, or install the package "
            f"tensorflow-estimator: {INSTALL_ESTIMATOR}.",
            name=name,
            obj=self,
        )
