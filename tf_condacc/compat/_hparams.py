"""Hyperparameters as in ``tf.contrib.training``."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z]\w*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:\[(?P<values>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)
_BOOLEANS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


class HParams:
    """Hyperparameters, which are attributes. Mirrors ``tf.contrib.training.HParams``.

    A hyperparameter keeps the type of its first value. A list keeps the type of its elements, and
    may change its length. A hyperparameter whose first value is None accepts any value.

    Args:
        **kwargs: Values of the hyperparameters by their names.

    Raises:
        ValueError: A name is that of a method, or a list is empty.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kinds: dict[str, tuple[type, bool]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Args:
            name: Name of the hyperparameter.
            value: Its value: a number, a string, a Boolean, a list of these, or None.

        Raises:
            ValueError: The name is in use, or `value` is an empty list.
        """
        if hasattr(self, name):
            raise ValueError(
                f"Hyperparameter name is reserved: {name} is a hyperparameter or a method of "
                "HParams already."
            )
        is_list = isinstance(value, list | tuple)
        if is_list and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._kinds[name] = (type(value[0] if is_list else value), is_list)
        vars(self)[name] = list(value) if is_list else value

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets the value of a hyperparameter, converted to the type of the hyperparameter.

        Raises:
            KeyError: There is no such hyperparameter.
            ValueError: The value has another type, or is a list where one value is expected, or the
                other way around.
        """
        self.override_from_dict({name: value})

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if there is one of this name."""
        if self._kinds.pop(name, None):
            delattr(self, name)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a hyperparameter, or `default` if there is no such one."""
        return getattr(self, key) if key in self else default

    def values(self) -> dict[str, Any]:
        """Returns the values of all hyperparameters by their names."""
        return {name: getattr(self, name) for name in self._kinds}

    def parse(self, values: str) -> HParams:
        """Sets hyperparameters from text, such as ``"rate=0.5,name=x,sizes=[1,2],sizes[0]=3"``.

        Args:
            values: Assignments, separated by commas.

        Returns:
            This object.

        Raises:
            ValueError: The text is malformed, or a hyperparameter is unknown or has another type.
                Nothing is set then.
        """
        parsed: dict[str, Any] = {}
        end = 0
        while end < len(values):
            match = _ASSIGNMENT.match(values, end)
            if match is None:
                raise ValueError(
                    f"Malformed hyperparameter value: {values[end:]!r} in {values!r}; expected "
                    "name=value, name=[value,value] or name[index]=value"
                )
            name = match["name"]
            if name not in self:
                raise ValueError(f"Unknown hyperparameter type for {name}: it is not in {self}")
            parsed[name] = self._parsed(match, parsed.get(name, getattr(self, name)))
            end = match.end()
        return self.override_from_dict(parsed)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets hyperparameters from a dictionary, and returns this object.

        Raises:
            KeyError: There is no hyperparameter of a name. Nothing is set then.
            ValueError: A value has another type; see `set_hparam`. Nothing is set then.
        """
        vars(self).update({name: self._checked(name, each) for name, each in values_dict.items()})
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets hyperparameters from a JSON object, and returns this object.

        Raises:
            KeyError: There is no hyperparameter of a name.
            ValueError: The text is not valid JSON, or a value has another type.
        """
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Returns the hyperparameters as a JSON object. The arguments are those of `json.dumps`."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def __contains__(self, key: object) -> bool:
        return key in self._kinds

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{name}={value!r}' for name, value in self.values().items())})"

    def _kind(self, name: str) -> tuple[type, bool]:
        """Returns the type of a hyperparameter, and whether it is a list."""
        if name not in self._kinds:
            raise KeyError(f"Unknown hyperparameter {name}: it is not in {self}")
        return self._kinds[name]

    def _checked(self, name: str, value: Any) -> Any:
        """Returns a new value, converted to the type of its hyperparameter."""
        kind, is_list = self._kind(name)
        if kind is type(None):
            return value
        if is_list != isinstance(value, list | tuple):
            expected = "a list" if is_list else "one value"
            raise ValueError(f"Hyperparameter {name} is expected to be {expected}, got {value!r}")
        if is_list:
            return [_converted(name, kind, each) for each in value]
        return _converted(name, kind, value)

    def _parsed(self, match: re.Match[str], before: Any) -> Any:
        """Returns the value after an assignment to a hyperparameter."""
        name = match["name"]
        kind, is_list = self._kind(name)
        if match["index"] is not None:
            index = int(match["index"])
            if not is_list or match["value"] is None or index >= len(before):
                raise ValueError(f"Hyperparameter {name} has no single element {index}: {before!r}")
            return [*before[:index], _read(name, kind, match["value"]), *before[index + 1 :]]
        if match["values"] is not None:
            return [_read(name, kind, each) for each in match["values"].split(",")]
        value = _read(name, kind, match["value"])
        return [value] if is_list else value


def _read(name: str, kind: type, text: str) -> Any:
    """Returns the value that a text stands for."""
    text = text.strip()
    try:
        if kind is bool:
            return _BOOLEANS[text]
        return text if kind in (str, type(None)) else kind(text)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"Could not parse hyperparameter {name}: expected {kind.__name__}, got {text!r}"
        ) from None


def _converted(name: str, kind: type, value: Any) -> Any:
    """Converts a value to the type of its hyperparameter."""
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    wanted = numbers.Integral if issubclass(kind, numbers.Integral) else numbers.Number
    are_numbers = issubclass(kind, numbers.Number) and isinstance(value, wanted)
    if not are_numbers or kind is bool or isinstance(value, bool):
        raise ValueError(
            f"Could not cast hyperparameter {name} from type {type(value).__name__} to "
            f"{kind.__name__}: {value!r}"
        )
    return kind(value)
