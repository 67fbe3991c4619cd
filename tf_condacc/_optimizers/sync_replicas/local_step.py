"""The local step of a worker: the round of its next step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tf_condacc._optimizers.sync_replicas.gate import SyncGate

v1 = tf.compat.v1


class LocalStep:
    """The local step of a worker, and a copy of it beside the gate.

    A worker enters the gate with the copy, so its steps need not send the local step there. The
    copy belongs to one graph: a worker that replaces another one has a copy of its own.

    Args:
        anchor: Operation on the worker's device.
        gate: The gate.
        dtype: Data type of the global step.
    """

    def __init__(self, anchor: tf.Operation, gate: SyncGate, dtype: tf.DType) -> None:
        self._gate = gate
        # None keeps device functions away, which would count this variable among those to spread.
        with v1.device(None), gate.on_device():
            self._copy = v1.Variable(
                tf.constant(0, tf.int64),
                trainable=False,
                collections=[],
                use_resource=True,
                name=f"local_step_{gate.graph_id}",
            )
        with tf_ops.colocate_with(anchor), tf.control_dependencies([self._copy.initializer]):
            initial = tf.constant(0, dtype)
        # A device function may put variables elsewhere, unless they are colocated.
        with tf_ops.colocate_with(anchor):
            self._variable = v1.Variable(
                initial,
                trainable=False,
                collections=[v1.GraphKeys.LOCAL_VARIABLES],
                dtype=dtype,
                name="sync_rep_local_step",
            )

    @property
    def device(self) -> str:
        """The device of the worker."""
        return self._variable.device

    def at_gate(self) -> tf.Tensor:
        """Returns the local step on the gate's device: `[] int64`."""
        with self._gate.on_device():
            return self._copy.read_value()

    def assign(self, round_: tf.Tensor) -> Any:
        """Assigns a round, first beside the gate: `[] int64`."""
        with self._gate.on_device():
            copied = self._copy.assign(round_, read_value=False)
            with tf.control_dependencies([copied]):
                round_ = tf.identity(round_)
        with v1.device(self._variable.device):
            return v1.assign(self._variable, tf.cast(round_, self._variable.dtype.base_dtype))
