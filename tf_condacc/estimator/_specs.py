"""What is asked of a spec that a `model_fn` returns, of whatever type it is."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from tf_condacc.estimator.model_fn import ModeKeys, SpecLike

_REQUIRED = {
    ModeKeys.TRAIN: ("train_op", "loss"),
    ModeKeys.EVAL: ("loss",),
    ModeKeys.PREDICT: ("predictions",),
}


def argument_names(function: Callable[..., Any]) -> set[str]:
    """Names of the arguments that a caller may still give."""
    names = set(inspect.signature(function).parameters)
    return names - set(function.keywords) if isinstance(function, functools.partial) else names


def checked(spec: SpecLike, mode: str, which: str = "model_fn") -> SpecLike:
    """Checks what a `model_fn` returned, which may be of any type, and returns it.

    Raises:
      ValueError: It does not have the fields of a spec, or not the values that the mode requires.
    """
    if not all(hasattr(spec, name) for name in ("predictions", "loss", "train_op")):
        raise ValueError(f"{which} should return an EstimatorSpec, got {spec!r}.")
    for name in _REQUIRED.get(mode, ()):
        if getattr(spec, name) is None:
            raise ValueError(
                f"Missing {name}. In mode {mode!r}, {which} must return a spec with {name}; it is "
                "None."
            )
    return spec


def replace(spec: SpecLike, **fields: Any) -> SpecLike:
    """A spec of the same type with other values of some fields."""
    if hasattr(spec, "_replace"):
        return spec._replace(**fields)
    if dataclasses.is_dataclass(spec):
        return dataclasses.replace(spec, **fields)
    changed = copy.copy(spec)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
