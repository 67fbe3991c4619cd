"""Checks of the arguments of an Estimator, and the features and labels of an input."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from condacc import extras
from tf_condacc._model_fn import argument_names


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
