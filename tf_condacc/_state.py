"""The states of accumulators and gates as parts of object-based checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import tensorflow as tf

from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import Trackable


class SavedState(Trackable):
    """The state of a resource, which is a child of the resource's object in checkpoints.

    It is an object of its own, because SavedModels must not contain it: they leave out this child.
    It does not refer to the resource's object, which refers to it: that would make a cycle.

    Args:
        handle: Handle of the resource: `[] resource`.
        save: Makes the operation that outputs the state, from the handle: `[n]`.
        restore: Makes the operation that replaces the state, from the handle and a state.
    """

    def __init__(
        self, handle: tf.Tensor, save: Callable[..., tf.Tensor], restore: Callable[..., Any]
    ) -> None:
        self.handle = handle
        self._save = save
        self._restore = restore

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"state": self._save(self.handle)}

    def _restore_from_tensors(self, restored_tensors: Mapping[str, tf.Tensor]) -> Any:
        return self._restore(self.handle, restored_tensors["state"])

    def _copy_trackable_to_cpu(self, object_map: MutableMapping[Any, Any]) -> None:
        """Notes the state of this moment for a checkpoint that another thread writes."""
        state = self._serialize_to_tensors()["state"]
        if self not in object_map:
            object_map[self] = _CopiedState(state.dtype)
        object_map[self].state.assign(state)


def accumulator_state(handle: tf.Tensor) -> SavedState:
    """Returns the state of an accumulator."""
    return SavedState(handle, ops.condacc_accumulator_save, ops.condacc_accumulator_restore)


def counter_state(gate: tf.Tensor, counter: str) -> SavedState:
    """Returns what the staleness gate of a handle has counted under a name."""
    save = functools.partial(ops.condacc_staleness_gate_save, counter=counter)
    restore = functools.partial(ops.condacc_staleness_gate_restore, counter=counter)
    return SavedState(gate, save, restore)


def gate_state(handle: tf.Tensor) -> SavedState:
    """Returns what the gate of synchronous training has counted."""
    return SavedState(handle, ops.condacc_sync_gate_save, ops.condacc_sync_gate_restore)


class _CopiedState(Trackable):
    """The state of a resource at the moment when the writing of a checkpoint began."""

    def __init__(self, dtype: tf.DType) -> None:
        with tf.init_scope(), tf.device("/device:CPU:0"):
            self.state = tf.Variable(tf.zeros([0], dtype), shape=[None], trainable=False)

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"state": self.state.read_value()}
