"""The modes that a `model_fn` is called with, and the checks of the specs that it returns.

The towers and the Estimator share this module. A `model_fn` may return specs of any type that has
the fields of an EstimatorSpec.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

# An EstimatorSpec, or an object of another type with the same fields.
SpecLike: TypeAlias = Any


class ModeKeys:
    """The names of the three modes. Mirrors ``tf.estimator.ModeKeys``."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


_REQUIRED = {
    ModeKeys.TRAIN: ("train_op", "loss"),
    ModeKeys.EVAL: ("loss",),
    ModeKeys.PREDICT: ("predictions",),
}


def argument_names(function: Callable[..., Any]) -> set[str]:
    """Returns the names of a function's arguments, without those that a ``partial`` binds."""
    names = set(inspect.signature(function).parameters)
    return names - set(function.keywords) if isinstance(function, functools.partial) else names


def checked_spec(spec: SpecLike, mode: str, which: str = "model_fn") -> SpecLike:
    """Checks what a `model_fn` returned, and returns it.

    Args:
        spec: The result of the `model_fn`.
        mode: One of `ModeKeys`.
        which: What the `model_fn` is called in error messages.

    Raises:
        ValueError: `spec` lacks a field of a spec, or a value that the mode requires.
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


def replaced_spec(spec: SpecLike, **fields: Any) -> SpecLike:
    """Returns a spec of the same type with other values of some fields."""
    if hasattr(spec, "_replace"):
        return spec._replace(**fields)
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        return dataclasses.replace(spec, **fields)
    changed = copy.copy(spec)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
