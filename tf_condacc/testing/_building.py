"""The construction of a model, whose variables are recorded and get given initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Built(NamedTuple):
    """What a function returned, and the variables that it made, in the order of creation."""

    value: Any
    variables: list[tf.Variable]


def record(build: Callable[[], Any], initial: Sequence[np.ndarray] | None = None) -> Built:
    """Calls a function, and records the variables that it makes.

    Args:
        build: The function.
        initial: The initial values of its variables, in place of those that it gives.

    Raises:
        ValueError: The function made other variables than there are initial values.
    """
    made: list[tf.Variable] = []

    def creator(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        number = len(made)
        if initial is not None and number < len(initial):
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
                f"build: expected the variables of the first call, of shapes {first}, got {shapes}"
            )
    return Built(value, made)
