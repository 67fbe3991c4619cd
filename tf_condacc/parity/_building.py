"""The construction of a model, whose variables are recorded and get given initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Built(NamedTuple):
    """The result of a function, and the trainable variables that it made.

    Attributes:
        value: What the function returned.
        variables: The ``tf.Variable`` objects, in the order in which they were made.
    """

    value: Any
    variables: list[tf.Variable]


def record(build: Callable[[], Any], initial: Sequence[np.ndarray] | None = None) -> Built:
    """Calls a function, and records the trainable variables that it makes.

    Args:
        build: The function.
        initial: The initial values of these variables, in place of those that it gives.

    Raises:
        ValueError: The function made other variables than there are initial values.
    """
    made: list[tf.Variable] = []

    def creator(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        if not _is_trained(arguments):
            return next_creator(**arguments)
        number = len(made)
        if initial is not None and number < len(initial) and _fits(initial[number], arguments):
            arguments |= {"initial_value": initial[number], "dtype": initial[number].dtype}
        made.append(next_creator(**arguments))
        return made[-1]

    with tf.variable_creator_scope(creator):
        value = build()
    if initial is not None:
        shapes = [tuple(variable.shape) for variable in made]
        first = [value.shape for value in initial]
        if shapes != first:
            raise ValueError(
                f"build: expected new variables on each call, like those of the first, of shapes "
                f"{first}, got {shapes}"
            )
    return Built(value, made)


def _is_trained(arguments: dict[str, Any]) -> bool:
    """Returns whether the arguments of a new variable are those of a variable to train.

    Counters, such as the ones that Keras models make, are trainable variables of an integer type.
    """
    if arguments.get("trainable") is False:
        return False
    dtype, value = arguments.get("dtype"), arguments.get("initial_value")
    if dtype is None:
        if callable(value):
            return True
        dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
    return not tf.as_dtype(dtype).is_integer and not tf.as_dtype(dtype).is_bool


def _fits(value: np.ndarray, arguments: dict[str, Any]) -> bool:
    """Returns whether a value has the shape of a new variable, as far as its arguments tell."""
    shape: Any = arguments.get("shape")
    initial: Any = arguments.get("initial_value")
    if shape is None and not callable(initial):
        shape = initial.shape if hasattr(initial, "shape") else np.shape(initial)
    return tf.TensorShape(shape).is_compatible_with(value.shape)


def trained(built: Built, as_of_keras: bool) -> list[Any]:
    """Returns the variables to train, in the order in which they were made.

    If the model has ``trainable_variables``, variables that are not among these are left out.

    Args:
        built: The model and its variables.
        as_of_keras: Whether to return the variables of a Keras 3 model as its own objects, each of
            which contains a ``tf.Variable``, and which the optimizers of Keras 3 require.
    """
    if not hasattr(built.value, "trainable_variables"):
        return built.variables
    of_model = {
        id(each if isinstance(each, tf.Variable) else each.value): each
        for each in built.value.trainable_variables
    }
    found = [each for each in built.variables if id(each) in of_model]
    return [of_model[id(each)] for each in found] if as_of_keras else found
