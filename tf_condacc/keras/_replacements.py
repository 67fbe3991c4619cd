"""Attributes of objects that are replaced for a while, and restored afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ABSENT = object()


class Replacements:
    """Replaced attributes of objects. The classes of the objects stay as they are."""

    def __init__(self) -> None:
        self._replaced: list[_Replaced] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute of an object."""
        self._replaced.append(_Replaced(owner, name, value, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def replace_method(self, owner: Any, name: str, method: Callable[..., Any]) -> bool:
        """Replaces a method of an object, unless it is replaced already.

        If somebody else has replaced it since, the method that is there now is replaced.

        Args:
            owner: The object.
            name: The name of the method.
            method: What is called instead, with the original method as its first argument.

        Returns:
            True if this call has replaced it, or False if it was replaced already.
        """
        current = vars(owner).get(name)
        if any(each.owner is owner and each.ours is current for each in self._replaced):
            return False
        self.replace(owner, name, _bound(method, getattr(owner, name)))
        return True

    def restore(self, keep: Any = None) -> None:
        """Restores the former attributes, but for those of the object `keep`."""
        for each in reversed(self._replaced):
            if each.owner is not keep:
                each.restore()
        self._replaced = [each for each in self._replaced if each.owner is keep]


@dataclass(frozen=True, eq=False)
class _Replaced:
    """An attribute of an object that was replaced.

    Attributes:
        owner: The object.
        name: The name of the attribute.
        ours: The new value.
        before: The former value, or _ABSENT if the object itself had none.
    """

    owner: Any
    name: str
    ours: Any
    before: Any

    def restore(self) -> None:
        """Restores the former value, unless the attribute has been replaced again."""
        if vars(self.owner).get(self.name) is not self.ours:
            return
        if self.before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


def _bound(method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with the signature and docstring of another one, which it may call."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(original, *args, **kwargs)

    return call
