"""Strategies that spread variables over parameter servers.

Mirrors ``tf.contrib.training.GreedyLoadBalancingStrategy`` and
``tf.contrib.training.byte_size_load_fn``.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


class GreedyLoadBalancingStrategy:
    """Places each variable on the parameter server with the least load so far.

    Mirrors ``tf.contrib.training.GreedyLoadBalancingStrategy``. It is a `ps_strategy` of
    `tf_condacc.replica_device_setter`. All workers must build their variables in the same order.
    Accumulators that are placed with their variable stay on its server and are not counted as load.

    Args:
        num_tasks: Number of parameter servers.
        load_fn: Function that returns the load of an operation that makes a variable. See
            `byte_size_load_fn`.

    Raises:
        ValueError: `num_tasks` is lower than 1.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[tf.Operation], float]) -> None:
        if num_tasks < 1:
            raise ValueError(
                f"GreedyLoadBalancingStrategy expects num_tasks >= 1, got {num_tasks!r}"
            )
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: tf.Operation) -> int:
        """Returns the number of the parameter server for an operation."""
        placed = tf.DeviceSpec.from_string(op.device or "").task
        if placed is not None:  # Already placed, like an accumulator beside its variable.
            return placed
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: tf.Operation) -> float:
    """Returns the size in bytes of the variable that an operation makes.

    Mirrors ``tf.contrib.training.byte_size_load_fn``. It also handles resource variables and the
    accumulators of this package. Unknown dimensions count as 1.

    Args:
        op: The operation.

    Returns:
        The number of bytes; 0 for an operation without outputs and without a shape.
    """
    try:
        dtype, shape = op.get_attr("dtype"), tf.TensorShape(op.get_attr("shape"))
    except ValueError:
        if not op.outputs:
            return 0
        dtype, shape = op.outputs[0].dtype, op.outputs[0].shape
    size = tf.as_dtype(dtype).size
    for dimension in shape.as_list() if shape.rank is not None else []:
        size *= 1 if dimension is None else dimension
    return float(size)
