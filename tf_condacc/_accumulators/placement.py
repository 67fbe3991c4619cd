"""Placement of accumulators on parameter servers.

Mirrors ``tf.compat.v1.train.replica_device_setter``.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._tensorflow import STANDARD_PS_OPS

PS_OPS = ("Condacc>DenseAccumulator", "Condacc>SparseAccumulator")
"""Types of the operations of accumulators, which belong on parameter servers."""

_clusters: weakref.WeakKeyDictionary[tf.Graph, Any] = weakref.WeakKeyDictionary()


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: tf.train.ClusterSpec | Mapping[str, Any] | None = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[tf.Operation], int] | None = None,
) -> Callable[[tf.Operation], str]:
    """Returns a device function that places variables and accumulators on parameter servers.

    Mirrors ``tf.compat.v1.train.replica_device_setter``. TensorFlow's function places operations by
    their type and does not know the types of this package. It would leave the accumulators of this
    package on the workers.

    Example:
        >>> with tf.Graph().as_default():
        ...     with tf.compat.v1.device(tf_condacc.replica_device_setter(ps_tasks=1)):
        ...         accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [2])
        >>> accumulator.accumulator_ref.device
        '/job:ps/task:0'

    Args:
        ps_tasks: Number of parameter server tasks. Ignored if `cluster` is given.
        ps_device: Device of the parameter servers.
        worker_device: Device of the workers.
        merge_devices: Whether to merge the device with that of an enclosing device scope, instead
            of replacing it.
        cluster: A ``tf.train.ClusterSpec``, or a dictionary that converts to one.
        ps_ops: Types of the operations that go to parameter servers. By default TensorFlow's list
            and this package's accumulators.
        ps_strategy: Function that chooses the task for an operation. By default tasks are chosen
            round robin.

    Returns:
        A function that can be passed to ``tf.compat.v1.device``.

    Raises:
        TypeError: `cluster` is neither a dictionary nor a cluster, or `ps_strategy` is not
            callable.
    """
    if ps_ops is None:
        ps_ops = [*STANDARD_PS_OPS, *PS_OPS]
    setter = v1.train.replica_device_setter(
        ps_tasks=ps_tasks,
        ps_device=ps_device,
        worker_device=worker_device,
        merge_devices=merge_devices,
        cluster=cluster,
        ps_ops=ps_ops,
        ps_strategy=ps_strategy,
    )
    return noting_cluster(setter, cluster)


def noting_cluster(setter: Any, cluster: Any) -> Any:
    """Returns a device function that also notes the cluster, for `cluster_of`.

    Args:
        setter: What ``tf.compat.v1.train.replica_device_setter`` has returned.
        cluster: Its argument `cluster`.
    """
    if setter is None or cluster is None:
        return setter

    @functools.wraps(setter)
    def place(op: tf.Operation) -> str:
        _clusters.setdefault(op.graph, cluster)
        return setter(op)

    return place


def cluster_of(graph: tf.Graph) -> dict[str, Any]:
    """Returns the tasks of each job of the cluster for which the operations of a graph are placed.

    Args:
        graph: The graph. The result is empty if no device function of `replica_device_setter` that
            knows a cluster has placed an operation of it.
    """
    return tf.train.ClusterSpec(_clusters.get(graph, {})).as_dict()
