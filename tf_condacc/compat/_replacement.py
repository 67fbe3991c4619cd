"""Replacement of objects in all modules of TensorFlow."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any


def replace_everywhere(replacements: Sequence[tuple[Any, Any]]) -> None:
    """Replaces objects in all imported modules of TensorFlow, under any name that they have there.

    Modules that take the objects by name are found by the identity of the object. Modules that are
    imported later take the replacement, because the modules that define the objects are searched as
    well.

    Args:
        replacements: Pairs of an object and its replacement.
    """
    by_identity = {id(before): after for before, after in replacements}
    for module in _tensorflow_modules():
        for name, value in list(vars(module).items()):
            if id(value) in by_identity:
                setattr(module, name, by_identity[id(value)])


def _tensorflow_modules() -> Iterator[types.ModuleType]:
    for name, module in list(sys.modules.items()):
        is_tensorflow = name == "tensorflow" or name.startswith("tensorflow.")
        # A module that loads itself at the first use has nothing to replace before.
        if (
            is_tensorflow
            and not name.startswith("tensorflow.contrib")
            and hasattr(module, "__dict__")
        ):
            yield module
