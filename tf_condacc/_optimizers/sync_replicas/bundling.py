"""Small gradients that are sent to the process of their variables in one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.native import ops
from tf_condacc._typing import Gradient

# A message between two processes costs as much as copying several hundred KiB, and a gradient in a
# bundle is copied twice, so larger gradients gain little. A bundle is sent when its last gradient
# has been computed, so a large one would delay gradients that are ready.
_LARGEST_BYTES = 64 << 10
_BUNDLE_BYTES = 256 << 10

_GradientAndVariable = tuple[Gradient, tf.Variable]


class _Process(NamedTuple):
    """The job, replica and task of a device; the task is None if the device does not name it."""

    job: str
    replica: int
    task: int | None

    def cpu(self) -> str:
        """Returns the name of the first CPU of the process."""
        spec = tf.DeviceSpec(self.job, self.replica, self.task, "CPU", 0)
        return spec.to_string()


def sent_in_bundles(grads_and_vars: Sequence[_GradientAndVariable]) -> list[Gradient]:
    """Sends small dense gradients to the processes of their variables in bundles.

    Each tensor that another process needs is a message of its own, so the small gradients from one
    process to another one are packed into a few tensors.

    Args:
        grads_and_vars: The gradients, in the data types in which they are sent, and their
            variables.

    Returns:
        The gradients in the same order. Those that were sent in a bundle are the same numbers in
        other tensors, beside the variables; all others are returned as they are.
    """
    arrived = [gradient for gradient, _ in grads_and_vars]
    routes: dict[tuple[_Process, _Process], list[int]] = {}
    for i, (gradient, variable) in enumerate(grads_and_vars):
        route = _route(gradient, variable)
        if route is not None:
            routes.setdefault(route, []).append(i)
    for route, positions in routes.items():
        for bundle in _bundles(positions, arrived):
            names = [grads_and_vars[i][1].op.name for i in bundle]
            unpacked = _sent(route, [arrived[i] for i in bundle], names)
            for i, gradient in zip(bundle, unpacked, strict=True):
                arrived[i] = gradient
    return arrived


def _sent(
    route: tuple[_Process, _Process], gradients: list[tf.Tensor], names: list[str]
) -> list[tf.Tensor]:
    """Sends a bundle and returns the gradients where they arrive."""
    sender, receiver = route
    shapes = [gradient.shape for gradient in gradients]
    with v1.device(sender.cpu()):
        bundle = ops.condacc_gradients_pack(gradients, shapes=shapes, names=names, name="bundle")
    dtypes = [gradient.dtype for gradient in gradients]
    with v1.device(receiver.cpu()):
        return ops.condacc_gradients_unpack(bundle, dtypes=dtypes, shapes=shapes, name="unpacked")


def _route(gradient: Gradient, variable: tf.Variable) -> tuple[_Process, _Process] | None:
    """Returns from where to where a gradient is sent if it may be in a bundle; otherwise None."""
    if (
        not isinstance(gradient, tf.Tensor)
        or not gradient.shape.is_fully_defined()
        or _num_bytes(gradient) > _LARGEST_BYTES
    ):
        return None
    sender, receiver = _process_of(gradient.device), _process_of(variable.device)
    if sender is None or receiver is None:
        return None
    if sender.job == receiver.job and (sender == receiver or None in (sender.task, receiver.task)):
        return None  # They are the same process, or may be.
    return sender, receiver


def _bundles(positions: list[int], gradients: list[Gradient]) -> list[list[int]]:
    """Divides the gradients of a route into bundles of at least two."""
    bundles: list[list[int]] = [[]]
    size = 0
    for i in positions:
        size += _num_bytes(gradients[i])
        if size > _BUNDLE_BYTES:
            bundles.append([])
            size = _num_bytes(gradients[i])
        bundles[-1].append(i)
    return [bundle for bundle in bundles if len(bundle) > 1]


def _num_bytes(gradient: tf.Tensor) -> int:
    return gradient.shape.num_elements() * gradient.dtype.size


def _process_of(device: str) -> _Process | None:
    """Returns the process of a device; None if the device does not name a job."""
    spec = tf.DeviceSpec.from_string(device)
    return None if spec.job is None else _Process(spec.job, spec.replica or 0, spec.task)
