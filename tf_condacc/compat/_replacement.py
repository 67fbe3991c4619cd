"""Replacement of objects in all modules of TensorFlow."""

from __future__ import annotations

import sys
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any

Place = tuple[int, str]


def replace_everywhere(
    replacements: Sequence[tuple[Any, Any]], but_not: Collection[Place] = ()
) -> None:
    """Replaces objects in all imported modules of TensorFlow, under any name that they have there.

    Modules that take the objects by name are found by the identity of the object. Modules that are
    imported later take the replacement, because the modules that define the objects are searched as
    well.

    Args:
        replacements: Pairs of an object and its replacement.
        but_not: Places that stay as they are, as `places_of` returns them.
    """
    by_identity = {id(before): after for before, after in replacements}
    for module, name, value in list(_attributes()):
        if id(value) in by_identity and (id(module), name) not in but_not:
            setattr(module, name, by_identity[id(value)])


def places_of(objects: Sequence[Any]) -> set[Place]:
    """Returns the places in modules of TensorFlow that hold one of some objects."""
    identities = {id(each) for each in objects}
    return {(id(module), name) for module, name, value in _attributes() if id(value) in identities}


def _attributes() -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yields the attributes of all imported modules of TensorFlow."""
    for path, module in list(sys.modules.items()):
        if path == "tensorflow" or path.startswith("tensorflow."):
            # A module that is loaded at its first use has no objects before.
            for name, value in list(getattr(module, "__dict__", {}).items()):
                yield module, name, value
