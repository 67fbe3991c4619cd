"""Calling an `input_fn` and a `model_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc.estimator import _specs

v1 = tf.compat.v1


def call_accepted(function: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
    """Calls a function with those of the optional arguments that it has by name."""
    names = _specs.argument_names(function)
    accepted = {name: value for name, value in optional.items() if name in names}
    return function(*args, **accepted)


def check_model_fn(model_fn: Any, params: Any) -> None:
    """Checks what can be checked before it is called.

    Raises:
      ValueError: It is no function, or has no argument for features, or for params that are given.
    """
    if not callable(model_fn):
        raise ValueError(f"model_fn must be provided to Estimator, got {model_fn!r}.")
    names = _specs.argument_names(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )


def check_steps(**steps: int | None) -> None:
    """Checks numbers of steps, by the names of the arguments that they are.

    Raises:
      ValueError: One is below 1.
    """
    for name, number in steps.items():
        if number is not None and number <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {number}")


def checked_hooks(hooks: Sequence[Any] | None) -> list[Any]:
    """The hooks as a list.

    Raises:
      TypeError: One is no hook.
    """
    hooks = list(hooks or ())
    for hook in hooks:
        if not isinstance(hook, v1.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return hooks


def features_and_labels(result: Any) -> tuple[Any, Any]:
    """What an `input_fn` returned: a Dataset or tensors, of features or of pairs.

    Raises:
      ValueError: A tuple that is no pair.
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
    features: Any,
    labels: Any,
    mode: str,
    optional: Mapping[str, Any],
) -> Any:
    """Calls a `model_fn` with what it has arguments for.

    Returns:
      An EstimatorSpec, or what has its fields.

    Raises:
      ValueError: It takes no labels but there are some, or what it returns is no spec or lacks what
        the mode requires.
    """
    if "labels" in _specs.argument_names(model_fn):
        optional = {"labels": labels, **optional}
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    spec = call_accepted(model_fn, features=features, mode=mode, **optional)
    return _specs.checked(spec, mode)
