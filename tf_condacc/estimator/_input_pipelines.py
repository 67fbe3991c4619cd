"""Functions that call an `input_fn` and a `model_fn`, and check their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from condacc import extras
from tf_condacc._model_fn import SpecLike, argument_names, checked_spec
from tf_condacc._typing import Nested


def call_accepted(function: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
    """Calls a function, and leaves out the optional arguments that it does not have."""
    names = argument_names(function)
    accepted = {name: value for name, value in optional.items() if name in names}
    return function(*args, **accepted)


def check_model_fn(model_fn: Any, params: Any) -> None:
    """Checks a `model_fn` before it is called.

    Raises:
        ValueError: `model_fn` is not a function, or it has no argument `features`, or it has no
            argument `params` although `params` are given.
    """
    if not callable(model_fn):
        raise ValueError(f"model_fn must be provided to Estimator, got {model_fn!r}.")
    names = argument_names(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )


def check_steps(**steps: int | None) -> None:
    """Checks numbers of steps.

    Args:
        **steps: The numbers by the names of their arguments. None is accepted.

    Raises:
        ValueError: A number is lower than 1.
    """
    for name, number in steps.items():
        if number is not None and number <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {number}")


def check_not_given(owner: str, **arguments: Any) -> None:
    """Checks arguments that only the package tensorflow-estimator supports.

    Raises:
        ValueError: One of them is given.
    """
    for name, value in arguments.items():
        if value:
            raise ValueError(
                f"{owner}: {name} is not supported by the Estimator of tf_condacc; got {value!r}. "
                "It needs the package tensorflow-estimator, and a program that runs under `condacc "
                f"run` or calls compat.install(): {extras.INSTALL_ESTIMATOR}."
            )


def checked_hooks(
    hooks: Iterable[v1.train.SessionRunHook] | None,
) -> list[v1.train.SessionRunHook]:
    """Returns the hooks as a list.

    Raises:
        TypeError: One of them is not a ``SessionRunHook``.
    """
    hooks = list(hooks or ())
    for hook in hooks:
        if not isinstance(hook, v1.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return hooks


def features_and_labels(result: Any) -> tuple[Any, Any]:
    """Returns the features and labels of an input; the labels are None if it has none.

    Args:
        result: The result of an `input_fn`: features or a pair ``(features, labels)``, as a
            ``tf.data.Dataset`` or as tensors.

    Raises:
        ValueError: `result` is a tuple or list of another length than 2.
    """
    if isinstance(result, (tf.data.Dataset, v1.data.Dataset)):
        iterator = v1.data.make_initializable_iterator(result)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        result = iterator.get_next()
    if isinstance(result, (list, tuple)):
        if len(result) != 2:
            raise ValueError(
                "input_fn should return (features, labels) as a len 2 tuple, got one of "
                f"{len(result)}."
            )
        return tuple(result)
    return result, None


def call_model_fn(
    model_fn: Callable[..., Any],
    features: Nested,
    labels: Nested,
    mode: str,
    optional: Mapping[str, Any],
) -> SpecLike:
    """Calls a `model_fn`, and leaves out the arguments that it does not have.

    Args:
        model_fn: The function.
        features: The features.
        labels: The labels, or None.
        mode: One of `ModeKeys`.
        optional: Further arguments by their names.

    Returns:
        An EstimatorSpec, or an object with its fields.

    Raises:
        ValueError: There are labels and `model_fn` has no argument for them, or its result is not a
            spec, or lacks a value that the mode requires.
    """
    if "labels" in argument_names(model_fn):
        optional = {"labels": labels, **optional}
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    spec = call_accepted(model_fn, features=features, mode=mode, **optional)
    return checked_spec(spec, mode)
