"""Placing accumulators on parameter servers.

Mirrors ``tf.compat.v1.train.replica_device_setter``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.training import device_setter

PS_OPS = ("Condacc>DenseAccumulator", "Condacc>SparseAccumulator")


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: tf.train.ClusterSpec | dict[str, Any] | None = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[tf.Operation], int] | None = None,
) -> Callable[[tf.Operation], str]:
    """Like ``tf.compat.v1.train.replica_device_setter``, and knows this package's accumulators.

    TensorFlow's own places operations by their type, and ours have types of their own: with it our
    accumulators would end up on the workers.

    Args:
        ps_tasks: Number of parameter server tasks; ignored if `cluster` is given.
        ps_device: Device of the parameter servers.
        worker_device: Device of the workers.
        merge_devices: Whether to merge with devices set by others rather than replace them.
        cluster: A ``tf.train.ClusterSpec`` or what converts to one.
        ps_ops: Types of the operations that go to parameter servers. By default TensorFlow's own
            and this package's accumulators.
        ps_strategy: Chooses the task for an operation; round robin by default.

    Returns:
        A function to be passed to ``tf.compat.v1.device``.

    Raises:
        TypeError: `cluster` is not a dictionary or cluster, or `ps_strategy` not callable.
    """
    if ps_ops is None:
        ps_ops = [*device_setter.STANDARD_PS_OPS, *PS_OPS]
    return tf.compat.v1.train.replica_device_setter(
        ps_tasks=ps_tasks,
        ps_device=ps_device,
        worker_device=worker_device,
        merge_devices=merge_devices,
        cluster=cluster,
        ps_ops=ps_ops,
        ps_strategy=ps_strategy,
    )
