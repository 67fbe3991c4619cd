"""Attributes of TensorFlow's modules: set so that the change can be undone exactly."""

from __future__ import annotations

import contextlib
import types
from typing import Any

_MISSING = object()


def set_attribute(
    stack: contextlib.ExitStack, module: types.ModuleType, name: str, value: Any
) -> None:
    """Sets an attribute of a module, and pushes the reversal on `stack`."""
    before = vars(module).get(name, _MISSING)
    stack.callback(_restore, module, name, before)
    setattr(module, name, value)


def _restore(module: types.ModuleType, name: str, before: Any) -> None:
    if before is not _MISSING:
        setattr(module, name, before)
    elif name in vars(module):
        delattr(module, name)
