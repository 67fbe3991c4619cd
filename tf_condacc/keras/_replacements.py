"""Attributes of objects that are replaced for a while, and restored afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

_ABSENT = object()


class _Replaced(NamedTuple):
    owner: Any
    name: str
    ours: Any  # The new value.
    before: Any  # The former value, or _ABSENT if the object itself had none.


class Replacements:
    """Replaced attributes of objects. The classes of the objects stay as they are."""

    def __init__(self) -> None:
        self._replaced: list[_Replaced] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute of an object."""
        self._replaced.append(_Replaced(owner, name, value, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def replace_method(self, owner: Any, name: str, method: Callable[..., Any]) -> bool:
        """Replaces a method of an object, and returns True, unless it is replaced already.

        If somebody else has replaced it since, the method that is there now is replaced.

        Args:
            owner: The object.
            name: The name of the method.
            method: What is called instead, with the original method as its first argument.
        """
        current = vars(owner).get(name)
        if any(each.owner is owner and each.ours is current for each in self._replaced):
            return False
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return method(original, *args, **kwargs)

        self.replace(owner, name, call)
        return True

    def restore(self, keep: Any = None) -> None:
        """Restores the former attributes, but for those of the object `keep`.

        What has been replaced again by somebody else stays.
        """
        for owner, name, ours, before in reversed(self._replaced):
            if owner is keep or vars(owner).get(name) is not ours:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._replaced = [each for each in self._replaced if each.owner is keep]
