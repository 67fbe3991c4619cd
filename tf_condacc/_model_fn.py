"""The modes that a `model_fn` is called with, and the checks of the specs that it returns.

The towers, the Estimator and `tf_condacc.compat.learn` share this module. A `model_fn` may return
specs of any type that has the fields of an EstimatorSpec.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import TensorLike

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


def call_accepted(function: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
    """Calls a function, and leaves out the optional arguments that it does not have."""
    names = argument_names(function)
    accepted = {name: value for name, value in optional.items() if name in names}
    return function(*args, **accepted)


def checked_hooks(
    hooks: Iterable[v1.train.SessionRunHook] | None,
    expected: str = "All hooks must be SessionRunHook instances",
) -> tuple[v1.train.SessionRunHook, ...]:
    """Returns the hooks.

    Raises:
        TypeError: One of them is not a ``SessionRunHook``. The text begins with `expected`.
    """
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, v1.train.SessionRunHook):
            raise TypeError(f"{expected}, given: {hook}")
    return hooks


def checked_loss(loss: TensorLike | None, mode: str) -> tf.Tensor | None:
    """Returns the loss of a spec as a tensor of rank 0.

    Raises:
        ValueError: It is missing although the mode requires it, or has more than one element.
    """
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    tensor = tf.convert_to_tensor(loss)
    if tensor.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {tensor}")
    return tensor if tensor.shape.rank == 0 else tf.reshape(tensor, [])


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
