"""Checks of what functions may do with this package's operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

try:
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:  # TensorFlow then reports the operations that XLA cannot compile.
    GraphOrParentsInXlaContext = None

FuncGraph: Any = getattr(getattr(tf, "__internal__", None), "FuncGraph", ())


def is_function(graph: tf.Graph) -> bool:
    """Returns whether a graph is that of a function, or of a branch or loop of version 2."""
    return isinstance(graph, FuncGraph)


def is_compiled(graph: tf.Graph) -> bool:
    """Returns whether XLA compiles the function of a graph, or one that calls it."""
    return GraphOrParentsInXlaContext is not None and GraphOrParentsInXlaContext(graph)


def is_out_of_reach(device: str) -> bool:
    """Returns whether a device belongs to another worker of a `MultiWorkerMirroredStrategy`.

    Args:
        device: Name of the device, which may leave out any part.
    """
    server = getattr(context.context(), "_collective_ops_server_def", None)
    if server is None or not device:
        return False
    spec = tf.DeviceSpec.from_string(device)
    return spec.job not in (None, server.job_name) or spec.task not in (None, server.task_index)


def out_of_reach(user: str) -> str:
    """Returns the error message for an accumulator or an operation on a device out of reach."""
    return (
        f"{user} is on the device of another process, which this process cannot reach. Workers of "
        "MultiWorkerMirroredStrategy do not share accumulators: each needs one of its own, and "
        "all_reduce adds up what they take."
    )
