"""Scalars that operations read from the memory of the host."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.eager import context

from tf_condacc._typing import TensorLike

_INT64 = range(-(2**63), 2**63)


def on_host() -> contextlib.AbstractContextManager:
    """Builds or executes operations on the CPU of the task that they would be in otherwise.

    The operations of this package read steps, counts and dense shapes from the memory of the host.
    Values that a GPU computes must be copied there, behind everything that the GPU has to do.

    In a graph, an operation that would be on a CPU stays on that CPU. Any other is placed on the
    first CPU of its task, without colocation.
    """
    if not tf.executing_eagerly():
        return _built_on_host()
    return tf.device("/device:CPU:0") if context.num_gpus() else contextlib.nullcontext()


def arguments_on_host() -> contextlib.AbstractContextManager:
    """Builds the arguments of an operation of this package on the host, and not the operation.

    Eagerly this does nothing: the arguments are int32 constants, which are on the host anyway.
    """
    return contextlib.nullcontext() if tf.executing_eagerly() else _built_on_host()


def host_int64(value: TensorLike) -> tf.Tensor:
    """Converts to int64, on the host: a tensor, a variable, a number or a list of these."""
    if isinstance(value, tf.Tensor) and value.dtype == tf.int64:
        return value
    with on_host():
        # A constant needs no cast, which eagerly takes most of the time of an apply.
        if isinstance(value, numbers.Integral) and int(value) in _INT64:
            return tf.constant(int(value), tf.int64)
        return tf.cast(tf.convert_to_tensor(value), tf.int64)


@contextlib.contextmanager
def _built_on_host() -> Iterator[None]:
    built: list[tf.Operation] = []

    def note(op: tf.Operation) -> str:
        built.append(op)
        return op.device

    # Device functions and colocation, which have the last word, are applied after `note`. So the
    # operations are moved when they are complete.
    with tf.compat.v1.device(note):
        yield
    for op in built:
        if not op.type.startswith("Condacc>"):
            _move_to_host(op)


def _move_to_host(op: tf.Operation) -> None:
    device = tf.DeviceSpec.from_string(op.device)
    if device.device_type == "CPU":
        return
    op._set_device(device.replace(device_type="CPU", device_index=0).to_string())
    if "_class" in op.node_def.attr:
        op._clear_attr("_class")
