"""The modules of ``tf.contrib``, which look their names up when they are used."""

from __future__ import annotations

import importlib
import types
from typing import Any

from tf_condacc.compat._contrib.lookup import Missing, find, names_of, sources_of
from tf_condacc.compat._errors import MissingNameError

ROOT = "tensorflow.contrib"


class ContribModule(types.ModuleType):
    """A module of ``tf.contrib``.

    Attributes:
        __path__: An empty path. It makes Python look for missing names among modules, so that
            ``from tensorflow.contrib.opt import name`` fails with a message that says what to do.
    """

    __path__: list[str] = []

    def __init__(self, path: str) -> None:
        """Creates the module.

        Args:
            path: Path below ``tf.contrib``; "" for ``tf.contrib`` itself.
        """
        super().__init__(f"{ROOT}.{path}" if path else ROOT)
        self.__package__ = self.__name__
        self._path = path

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *names_of(self._path)})

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return names_of(self._path)
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            value = self._find(name)
        except Missing as error:
            message = str(error)
        else:
            setattr(self, name, value)
            return value
        raise MissingNameError(message, name=name, obj=self)

    def _find(self, name: str) -> Any:
        try:
            return find(self._path, name)
        except Missing:
            child = f"{self._path}.{name}" if self._path else name
            if sources_of(child) is None:
                raise
        return importlib.import_module(f"{ROOT}.{child}")
