"""Small gradients that travel to the process of their variables in one message."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.native import ops
from tf_condacc._optimizers.sync_replicas.gate import host_of
from tf_condacc._typing import Gradient

# A message costs as much as copying some hundred KiB, so a larger gradient gains little from being
# copied into a package. A package leaves when its last gradient has been computed, so a large one
# would delay the transfer of gradients that are ready.
_LARGEST_BYTES = 64 << 10
_PACKAGE_BYTES = 256 << 10

_GradientAndVariable = tuple[Gradient, tf.Variable]


def travelled(grads_and_vars: Sequence[_GradientAndVariable]) -> list[Gradient]:
    """Returns gradients as they arrive in the processes of their variables.

    Small dense gradients from one process to another one are packed into a few tensors, because
    each tensor is a message of its own. They arrive as the same numbers; all other gradients are
    returned as they are.

    Args:
        grads_and_vars: The gradients, as they travel, and their variables.
    """
    arrived = [gradient for gradient, _ in grads_and_vars]
    for package in _packages(grads_and_vars):
        if len(package) == 1:
            continue
        packed = [arrived[i] for i in package]
        variable = grads_and_vars[package[0]][1]
        with v1.device(host_of(packed[0].device)):
            message = ops.condacc_gradients_pack(packed, name="packed")
        with v1.device(host_of(variable.device)):
            unpacked = ops.condacc_gradients_unpack(
                message,
                dtypes=[gradient.dtype for gradient in packed],
                shapes=[gradient.shape for gradient in packed],
                name="unpacked",
            )
        for i, gradient in zip(package, unpacked, strict=True):
            arrived[i] = gradient
    return arrived


def _packages(grads_and_vars: Sequence[_GradientAndVariable]) -> list[list[int]]:
    """Returns the positions of the gradients of each package, in their order."""
    packages: list[list[int]] = []
    last: dict[tuple[str, str], tuple[list[int], int]] = {}  # With its size in bytes.
    for i, (gradient, variable) in enumerate(grads_and_vars):
        if not _is_small(gradient) or not _is_remote(variable.device, gradient.device):
            continue
        way = host_of(gradient.device), host_of(variable.device)
        package, size = last.get(way, (None, 0))
        if package is None or size + _num_bytes(gradient) > _PACKAGE_BYTES:
            package, size = [], 0
            packages.append(package)
        package.append(i)
        last[way] = package, size + _num_bytes(gradient)
    return packages


def _is_small(gradient: Gradient) -> bool:
    return (
        isinstance(gradient, tf.Tensor)
        and gradient.shape.is_fully_defined()
        and _num_bytes(gradient) <= _LARGEST_BYTES
    )


def _num_bytes(gradient: tf.Tensor) -> int:
    return gradient.shape.num_elements() * gradient.dtype.size


def _is_remote(device: str, other: str) -> bool:
    """Returns whether a device is known to be in another process than `other`."""
    one, two = tf.DeviceSpec.from_string(device), tf.DeviceSpec.from_string(other)
    if one.job is None:
        return False
    return one.job != two.job or (one.replica or 0, one.task) != (two.replica or 0, two.task)
