"""The name of a worker, by which others speak of it."""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import weakref

import tensorflow as tf

_lock = threading.Lock()
_numbers = itertools.count(1)
_numbers_of_graphs: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()


def worker_name(device: str) -> str:
    """Returns the name of the worker that builds the current default graph.

    The name is the job and task of the worker's device. If the device has none, they are those of
    this process in the environment variable TF_CONFIG. If that is not set, the name is made of the
    host name, the process and, if the process has several graphs, the number of the graph.

    Args:
        device: The device of an operation of the worker.
    """
    spec = tf.DeviceSpec.from_string(device)
    if spec.job is not None:
        return f"/job:{spec.job}/task:{spec.task or 0}"
    return _name_in_tf_config() or _name_of_process()


def _name_in_tf_config() -> str | None:
    try:
        task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
        return f"/job:{task['type']}/task:{int(task.get('index', 0))}"
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _name_of_process() -> str:
    graph = tf.compat.v1.get_default_graph()
    with _lock:
        number = _numbers_of_graphs.get(graph)
        if number is None:
            number = _numbers_of_graphs[graph] = next(_numbers)
    suffix = f"#{number}" if number > 1 else ""
    return f"{socket.gethostname()}:{os.getpid()}{suffix}"
