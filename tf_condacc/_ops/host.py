"""Placement of scalar inputs in host memory, where the kernels of this package read them."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterable, Iterator

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _tensorflow
from tf_condacc._typing import TensorLike

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


def on_host() -> contextlib.AbstractContextManager:
    """Returns a context that builds or executes operations on the CPU of their task.

    The operations of this package read steps, counts and dense shapes from host memory. A value
    that a GPU computes has to be copied there first, after all the work queued on the GPU.

    In a graph, an operation that would be on a CPU stays on that CPU. Any other operation is placed
    on the first CPU of its task, and its colocation constraint is removed.
    """
    if not tf.executing_eagerly():
        return _built_on_host()
    has_gpu = tf.config.list_logical_devices("GPU")
    return tf.device("/device:CPU:0") if has_gpu else contextlib.nullcontext()


def arguments_on_host() -> contextlib.AbstractContextManager:
    """Returns a context that places the arguments of this package's operations on the host.

    The operation itself, built in the same context, stays where it would be otherwise. In eager
    mode the context does nothing: the arguments are int32 constants, which TensorFlow keeps in host
    memory anyway.
    """
    return contextlib.nullcontext() if tf.executing_eagerly() else _built_on_host()


def is_reference(dtype: tf.DType) -> bool:
    """Returns whether a data type is that of a reference variable of TensorFlow 1."""
    return dtype != dtype.base_dtype


def check_control_flow(variables: Iterable[tf.Variable]) -> None:
    """Checks that the variables can be updated in a branch of a conditional.

    Raises:
        TypeError: One is a reference variable, and control flow of version 2 is enabled.
    """
    references = [variable.name for variable in variables if is_reference(variable.dtype)]
    if references and v1.control_flow_v2_enabled():
        raise TypeError(
            f"Control flow of version 2 cannot update reference variables, got {references}: call "
            "tf.compat.v1.enable_resource_variables() or tf.compat.v1.disable_control_flow_v2()."
        )


def host_int64(value: TensorLike) -> tf.Tensor:
    """Converts a tensor, variable, number or list of any numeric dtype to int64, on the host."""
    if isinstance(value, tf.Tensor) and value.dtype == tf.int64:
        return value
    if isinstance(value, numbers.Integral) and int(value) in _INT64:
        return scalar(int(value), tf.int64)
    with on_host():
        return tf.cast(tf.convert_to_tensor(value), tf.int64)


def host_int32(value: TensorLike) -> tf.Tensor:
    """Converts an integer, or an int32 tensor, to int32, on the host.

    Other tensors are refused, not cast. TensorFlow keeps eager int32 tensors in host memory.
    """
    if isinstance(value, numbers.Integral) and int(value) in _INT32:
        return scalar(int(value), tf.int32)
    return tf.convert_to_tensor(value, tf.int32)


def scalar(value: float, dtype: tf.DType) -> tf.Tensor:
    """Converts a Python number to a tensor on the host: `[] dtype`."""
    if tf.executing_eagerly():
        return _tensorflow.number(value, dtype)
    with on_host():
        return tf.constant(dtype.as_numpy_dtype(value))


def host_of(device: str) -> str:
    """Returns the CPU of a device's task; the device itself if it is a CPU."""
    spec = tf.DeviceSpec.from_string(device)
    if spec.device_type == "CPU":
        return device
    return spec.replace(device_type="CPU", device_index=0).to_string()


@contextlib.contextmanager
def _built_on_host() -> Iterator[None]:
    built: list[tf.Operation] = []

    def note(op: tf.Operation) -> str:
        built.append(op)
        return op.device

    # Outer device functions and colocation are applied after `note`, and override what it returns.
    # The operations are therefore moved when they are complete.
    with v1.device(note):
        yield
    for op in built:
        if not op.type.startswith("Condacc>") and not _uses_variable(op):
            host = host_of(op.device)
            if host != op.device:
                _tensorflow.move(op, host)


def _uses_variable(op: tf.Operation) -> bool:
    """Returns whether an operation has to be where a variable is."""
    return any(x.dtype == tf.resource or is_reference(x.dtype) for x in op.inputs)
