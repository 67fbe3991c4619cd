"""The checks of what is given to a `GradientAccumulator`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._ops.function_checks import is_compiled


def checked_variables(variables: Any, name: str) -> list[Any]:
    """Returns a list of variables, or raises an error if they are none."""
    if _is_variable(variables) or not isinstance(variables, Iterable):
        raise TypeError(
            f"GradientAccumulator '{name}' expects a list of variables, got "
            f"{type(variables).__name__}."
        )
    variables = list(variables)
    if not variables:
        raise ValueError(
            f"GradientAccumulator '{name}' expects at least one variable, got none. A Keras model "
            "has no variables before it is built."
        )
    for variable in variables:
        if not _is_variable(variable):
            raise TypeError(
                f"GradientAccumulator '{name}' expects a list of variables, got "
                f"{type(variable).__name__} in it."
            )
    return variables


def checked_number(num_micro_batches: Any, name: str) -> int:
    """Returns the number of micro-batches, or raises an error if it is no positive integer."""
    try:
        number = operator.index(num_micro_batches)
    except TypeError:
        raise TypeError(
            f"GradientAccumulator '{name}' expects an integer num_micro_batches, got "
            f"{num_micro_batches!r}."
        ) from None
    if number < 1:
        raise ValueError(
            f"GradientAccumulator '{name}' expects num_micro_batches of at least 1, got {number}."
        )
    return number


def check_construction(reduction_type: str, name: str) -> None:
    """Raises the other errors of the constructor of `GradientAccumulator`."""
    if reduction_type not in ("MEAN", "SUM"):
        raise ValueError(
            f"GradientAccumulator '{name}' expects reduction_type 'MEAN' or 'SUM', got "
            f"{reduction_type!r}."
        )
    strategy = tf.distribute.get_strategy()
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise RuntimeError(
            f"GradientAccumulator '{name}' does not work under ParameterServerStrategy, whose "
            "workers make no common updates. Make a ConditionalAccumulator beside each variable."
        )
    if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
        raise RuntimeError(
            f"GradientAccumulator '{name}' is made in a function that {type(strategy).__name__} "
            "runs on replicas, so each replica would have another one. Make it outside, such as in "
            "strategy.scope()."
        )


def check_not_compiled(name: str) -> None:
    """Raises a RuntimeError in a function that XLA compiles."""
    if not tf.executing_eagerly() and is_compiled(tf.compat.v1.get_default_graph()):
        raise RuntimeError(
            f"GradientAccumulator '{name}' is used in a function that XLA compiles, but XLA has no "
            "accumulators. Leave out jit_compile=True, or set supports_jit = False in the class of "
            "a Keras model. A function that only computes the gradients may be compiled."
        )


def check_optimizer(optimizer: Any, name: str) -> None:
    """Raises a TypeError if an object is no optimizer."""
    if not callable(getattr(optimizer, "apply_gradients", None)):
        raise TypeError(
            f"GradientAccumulator '{name}': apply_gradients() expects an optimizer and a list of "
            f"gradients, got {type(optimizer).__name__} as the optimizer."
        )


def check_scope(variables: Sequence[Any], name: str, cause: Exception) -> None:
    """Raises a ValueError for a variable that does not belong to the strategy in force."""
    strategy = tf.distribute.get_strategy()
    for variable in variables:
        of_tensorflow = variable if isinstance(variable, tf.Variable) else variable.value
        if not strategy.extended.variable_created_in_scope(of_tensorflow):
            raise ValueError(
                f"GradientAccumulator '{name}': variable '{name_of(variable)}' was made outside of "
                f"the scope of the {type(strategy).__name__} whose replicas update it. Make it in "
                "strategy.scope()."
            ) from cause


def checked(gradients: Sequence[Any], variables: Sequence[Any], name: str) -> list[Any]:
    """Converts gradients to tensors or ``tf.IndexedSlices`` of the variables' shapes and types.

    Raises:
        TypeError: They are not in a list.
        ValueError: Their number, or the shape or the data type of one, is wrong, or one is None.
    """
    if tf.is_tensor(gradients) or not isinstance(gradients, Iterable):
        raise TypeError(
            f"GradientAccumulator '{name}' expects a list of gradients, got "
            f"{type(gradients).__name__}."
        )
    gradients = list(gradients)
    if any(isinstance(one, tuple) and any(map(_is_variable, one)) for one in gradients):
        raise ValueError(
            f"GradientAccumulator '{name}' got pairs of gradients and variables. It has the "
            "variables: pass the gradients only."
        )
    if len(gradients) != len(variables):
        raise ValueError(
            f"GradientAccumulator '{name}' expects {len(variables)} gradients, one for each "
            f"variable, got {len(gradients)}. Pass the gradients of all variables, in their order. "
            "Was `trainable` of a Keras model changed after the accumulator was made?"
        )
    return [
        _checked_one(gradient, variable, name)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _checked_one(gradient: Any, variable: Any, name: str) -> tf.Tensor | tf.IndexedSlices:
    who = f"GradientAccumulator '{name}': the gradient of variable '{name_of(variable)}'"
    if gradient is None:
        raise ValueError(
            f"{who} is None: the loss does not depend on this variable, or these are gradients "
            "of other variables. Leave a variable without gradients out of the variables of the "
            "GradientAccumulator."
        )
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    values = gradient.values if is_sparse else tf.convert_to_tensor(gradient)
    dtype, shape = tf.as_dtype(variable.dtype), tf.TensorShape(variable.shape)
    if values.dtype != dtype:
        raise ValueError(f"{who} has dtype {values.dtype.name}, expected {dtype.name}.")
    expected = tf.TensorShape([None]).concatenate(shape[1:]) if is_sparse else shape
    if not values.shape.is_compatible_with(expected):
        what = "values of shape" if is_sparse else "shape"
        raise ValueError(f"{who} has {what} {values.shape}, expected {expected}.")
    return gradient if is_sparse else values


def check_kinds(
    gradients: Sequence[Any], are_dense: Sequence[bool], variables: Sequence[Any], name: str
) -> None:
    """Raises a ValueError for a dense gradient where the first one was sparse."""
    for gradient, is_dense, variable in zip(gradients, are_dense, variables, strict=True):
        if not is_dense and not isinstance(gradient, tf.IndexedSlices):
            raise ValueError(
                f"GradientAccumulator '{name}': the gradient of variable '{name_of(variable)}' is "
                "a tensor, expected tf.IndexedSlices as in the first micro-batch."
            )


def name_of(variable: Any) -> str:
    """Returns the name of a variable of TensorFlow, or the path of one of Keras."""
    return getattr(variable, "path", None) or variable.name


def check_in_use(is_in_use: bool, name: str, method: str) -> None:
    """Raises a RuntimeError in a function or graph that is made before the first accumulate."""
    if not is_in_use and not tf.executing_eagerly():
        raise RuntimeError(
            f"GradientAccumulator '{name}': {method}() is called in a function or graph that is "
            "made before the first accumulate(), so it would never see what is accumulated. Call "
            "accumulate() or apply_gradients() first."
        )


def _is_variable(value: Any) -> bool:
    return all(hasattr(value, attribute) for attribute in ("assign", "dtype", "shape"))
