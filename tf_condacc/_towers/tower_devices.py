"""Placement of the towers and of their variables."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

_VARIABLE_OPS = ("Variable", "VariableV2", "VarHandleOp")
_CPU = "/CPU:0"


def local_devices() -> list[str]:
    """Returns the GPUs of this process, or its CPUs if it has no GPU."""
    for kind in ("GPU", "CPU"):
        devices = tf.config.list_logical_devices(kind)
        if devices:
            return [f"/device:{kind}:{number}" for number, _ in enumerate(devices)]
    raise RuntimeError("Expected a GPU or a CPU, TensorFlow found neither.")


def consolidation_device(devices: list[str]) -> str:
    """Returns the device of the variables and of the operations that combine all towers."""
    if len(devices) == 1 and _device_type(devices[0]) == "GPU":
        return devices[0]
    return _CPU


def placing(device: str, variable_device: str) -> Callable[[tf.Operation], str]:
    """Returns a function for ``tf.compat.v1.device`` that places one tower.

    A device that the program has chosen for an operation takes precedence.

    Args:
        device: Device of all operations except variables.
        variable_device: Device of variables.

    Raises:
        ValueError: One of the names is not that of a device.
    """
    others, variables = (
        tf.DeviceSpec.from_string(device),
        tf.DeviceSpec.from_string(variable_device),
    )

    def choose(op: tf.Operation) -> str:
        chosen = tf.DeviceSpec.from_string(op.device or "")
        default = variables if op.type in _VARIABLE_OPS else others
        return default.make_merged_spec(chosen).to_string()

    return choose


def _device_type(device: str) -> str | None:
    kind = tf.DeviceSpec.from_string(device).device_type
    return kind.upper() if kind else None
