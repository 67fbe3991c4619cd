"""The state of an accumulator as a part of object-based checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import tensorflow as tf

from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import Trackable


class AccumulatorState(Trackable):
    """The state of an accumulator, which is the accumulator's child in checkpoints.

    It is an object of its own, because SavedModels must not contain it: they leave out this child.
    It does not refer to the accumulator, which refers to it: that would make a cycle.

    Args:
        handle: Handle of the accumulator: `[] resource`.
    """

    def __init__(self, handle: tf.Tensor) -> None:
        self._handle = handle

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"state": ops.condacc_accumulator_save(self._handle)}

    def _restore_from_tensors(self, restored_tensors: Mapping[str, tf.Tensor]) -> Any:
        return ops.condacc_accumulator_restore(self._handle, restored_tensors["state"])

    def _copy_trackable_to_cpu(self, object_map: MutableMapping[Any, Any]) -> None:
        """Notes the state of this moment for a checkpoint that another thread writes."""
        if self not in object_map:
            object_map[self] = _CopiedState()
        object_map[self].state.assign(self._serialize_to_tensors()["state"])


class _CopiedState(Trackable):
    """The state of an accumulator at the moment when the writing of a checkpoint began."""

    def __init__(self) -> None:
        with tf.init_scope(), tf.device("/device:CPU:0"):
            self.state = tf.Variable(tf.zeros([0], tf.uint8), shape=[None], trainable=False)

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"state": self.state.read_value()}
