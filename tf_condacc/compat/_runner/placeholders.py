"""Imports from ``tf.contrib`` in programs, of which a missing one fails only when it is used."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from tf_condacc.compat._errors import MissingModuleError, MissingNameError


class Placeholder:
    """Stands for a name that is not provided. Each use raises a MissingNameError.

    Uses are attributes, calls, items, iteration, and the place of a class: as a base, and in
    ``isinstance`` and ``issubclass``.
    """

    def __init__(self, path: str, message: str) -> None:
        """Creates the placeholder.

        Args:
            path: The full name.
            message: What the error says.
        """
        self._path = path
        self._message = message

    def __repr__(self) -> str:
        return f"<{self._path}, which is not provided>"

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingNameError(self._message, name=name, obj=self)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MissingNameError(self._message)

    __call__ = __getitem__ = __iter__ = _refuse
    __mro_entries__ = __instancecheck__ = __subclasscheck__ = _refuse


def import_module(path: str) -> Any:
    """Returns a module of ``tf.contrib``, or a placeholder if it is not provided."""
    try:
        return importlib.import_module(path)
    except MissingModuleError as error:
        return Placeholder(path, str(error))


def import_name(path: str, name: str) -> Any:
    """Returns what ``from path import name`` binds, or a placeholder if it is not provided.

    Args:
        path: Path of a module of ``tf.contrib``.
        name: A name in it.
    """
    try:
        return getattr(__import__(path, fromlist=[name]), name)
    except MissingModuleError as error:
        return Placeholder(f"{path}.{name}", str(error))
