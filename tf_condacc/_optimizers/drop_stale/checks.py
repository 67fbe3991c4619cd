"""Checks of the arguments of an optimizer that drops stale gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._ops.host import host_int64, on_host
from tf_condacc._typing import GradientAndVariable, TensorLike

GLOBAL_STEP_ADVICE = (
    "make one with tf.compat.v1.train.get_or_create_global_step() and pass it as global_step"
)


def check_gradients(grads_and_vars: Sequence[GradientAndVariable]) -> None:
    """Checks that there is a gradient. The messages are those of TensorFlow's optimizers.

    Raises:
        ValueError: There are no pairs, or every gradient is None.
    """
    if not grads_and_vars:
        raise ValueError("No variables provided.")
    if all(gradient is None for gradient, _ in grads_and_vars):
        names = [str(variable) for _, variable in grads_and_vars]
        raise ValueError(f"No gradients provided for any variable: {names}.")


def check_step(step: Any) -> None:
    """Checks that the step can be incremented.

    Raises:
        ValueError: `step` is not a variable, or not a scalar of dtype int64 or int32.
    """
    if step is None:
        raise ValueError(
            "Gradients are dropped by the global step, but global_step is None: "
            f"{GLOBAL_STEP_ADVICE}."
        )
    if not isinstance(step, tf.Variable):
        raise ValueError(
            f"Expected global_step to be a variable, got {step!r}: {GLOBAL_STEP_ADVICE}."
        )
    if step.dtype.base_dtype not in (tf.int64, tf.int32) or not step.shape.is_compatible_with(()):
        raise ValueError(
            "Expected global_step to be a scalar of dtype int64 or int32, got "
            f"'{step.name}' of dtype {step.dtype.base_dtype.name} and shape {step.shape}: "
            f"{GLOBAL_STEP_ADVICE}."
        )


def check_control_flow(variables: Iterable[tf.Variable]) -> None:
    """Checks that the variables can be updated in a branch of a conditional.

    Raises:
        TypeError: One is a reference variable, and control flow of version 2 is enabled.
    """
    references = [variable.name for variable in variables if variable.dtype._is_ref_dtype]
    if references and tf.compat.v1.control_flow_v2_enabled():
        raise TypeError(
            f"Control flow of version 2 cannot update reference variables, got {references}: call "
            "tf.compat.v1.enable_resource_variables() or tf.compat.v1.disable_control_flow_v2()."
        )


def checked_limit(staleness: TensorLike, step: tf.Variable, optimizer_name: str) -> tf.Tensor:
    """Returns the highest accepted staleness as a tensor: `[] int64`.

    Args:
        staleness: The value that the optimizer was made with.
        step: The global step.
        optimizer_name: Name of the optimizer, for messages.

    Raises:
        TypeError: `staleness` is not an integer of the step's data type.
        ValueError: `staleness` is not a scalar.
    """
    dtype = step.dtype.base_dtype
    try:
        with on_host():
            limit = tf.convert_to_tensor(staleness, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Optimizer '{optimizer_name}' expects staleness to be an integer of the global "
            f"step's dtype {dtype.name}, got {staleness!r}."
        ) from error
    if not limit.shape.is_compatible_with(()):
        raise ValueError(
            f"Optimizer '{optimizer_name}' expects a scalar staleness, got shape {limit.shape}."
        )
    return host_int64(limit)


def check_strategy(name: str) -> None:
    """Checks that the replicas of a ``tf.distribute.Strategy`` do not make updates together.

    Args:
        name: Name of the optimizer.

    Raises:
        RuntimeError: A strategy with several replicas is in force, or a mirrored one in a function.
    """
    strategy = tf.distribute.get_strategy()
    mirrored = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy
    in_function = isinstance(strategy, mirrored) and not tf.executing_eagerly()
    if strategy.num_replicas_in_sync > 1 or in_function:
        raise RuntimeError(
            f"DropStaleGradientOptimizer '{name}' does not work under {type(strategy).__name__}. "
            "Its replicas make each update together, so their gradients are never stale: use the "
            "wrapped optimizer."
        )
