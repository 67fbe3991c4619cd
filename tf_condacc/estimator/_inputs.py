"""Calling an `input_fn` and a `model_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tf_condacc.estimator import _specs

v1 = tf.compat.v1


def call_accepted(function: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
    """Calls a function with those of the optional arguments that it has by name."""
    names = _specs.argument_names(function)
    accepted = {name: value for name, value in optional.items() if name in names}
    return function(*args, **accepted)


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
      ValueError: It takes no labels but there are some, or what it returns is no spec.
    """
    if "labels" in _specs.argument_names(model_fn):
        optional = {"labels": labels, **optional}
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    spec = call_accepted(model_fn, features=features, mode=mode, **optional)
    missing = [name for name in ("loss", "train_op", "scaffold") if not hasattr(spec, name)]
    if missing:
        raise ValueError(f"model_fn should return an EstimatorSpec, got {spec!r}.")
    return spec
