"""The names of workers, which identify them at the gate and in reports."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import weakref

import tensorflow as tf
from tensorflow.compat import v1

from condacc import tf_config
from tf_condacc._accumulators.placement import cluster_of

_lock = threading.Lock()
_numbers = itertools.count(1)
_numbers_of_graphs: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()


def worker_name(device: str) -> str:
    """Returns the name of the worker that builds the current default graph.

    The name is the job, replica and task of the worker's device. A job without a task is that of
    all workers, as in the default of ``tf.compat.v1.train.replica_device_setter``. If the device
    has no task, the name is the job and task of this process in the environment variable TF_CONFIG
    or, if that is not set, the host name and the process, followed by the number of the graph if
    the process has several graphs. So two workers never have one name.

    Args:
        device: The device of an operation of the worker.
    """
    return _name_of_device(device) or (_name_in_tf_config() or _name_of_process()) + _suffix()


def listed_workers() -> list[str]:
    """Returns the names of the workers of the cluster; none if the cluster is not known.

    It is that of the environment variable TF_CONFIG or, if that describes none, the one for which
    `tf_condacc.replica_device_setter` places the operations of the current default graph.
    """
    try:
        cluster = tf_config.read(None).cluster
    except ValueError:  # The program may read it in a way of its own.
        cluster = {}
    cluster = cluster or cluster_of(v1.get_default_graph())
    workers = tf_config.TaskConfig(cluster, "worker", 0).workers
    return [f"/job:{job}/task:{task}" for job, task in workers]


def _name_of_device(device: str) -> str | None:
    spec = tf.DeviceSpec.from_string(device)
    if spec.job is None or spec.task is None:
        return None
    replica = f"/replica:{spec.replica}" if spec.replica else ""
    return f"/job:{spec.job}{replica}/task:{spec.task}"


def _name_in_tf_config() -> str | None:
    try:
        task = tf_config.entries()["task"]
        return f"/job:{task['type']}/task:{int(task.get('index', 0))}"
    except (KeyError, TypeError, ValueError):
        return None


def _name_of_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _suffix() -> str:
    """Returns a suffix that makes the name of the current graph unique in the process."""
    graph = v1.get_default_graph()
    with _lock:
        number = _numbers_of_graphs.get(graph)
        if number is None:
            number = _numbers_of_graphs[graph] = next(_numbers)
    return f"#{number}" if number > 1 else ""
