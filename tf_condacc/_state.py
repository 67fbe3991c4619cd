"""The states of accumulators as parts of object-based checkpoints."""

from __future__ import annotations

import abc
from collections.abc import Mapping, MutableMapping
from typing import Any

import tensorflow as tf

from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import Trackable, is_being_restored


class State(Trackable):
    """A part of checkpoints that consists of tensors, whose names and data types are known."""

    # The names of the tensors, which are vectors or scalars, and their data types.
    _TYPES: Mapping[str, tf.DType]

    @abc.abstractmethod
    def saved(self) -> dict[str, tf.Tensor]:
        """Returns the tensors of this moment. In a graph, makes the operations that output them."""

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        if is_being_restored(self):  # The values are not used.
            return {name: tf.zeros([0], dtype) for name, dtype in self._TYPES.items()}
        return self.saved()

    def _copy_trackable_to_cpu(self, object_map: MutableMapping[Any, Any]) -> None:
        """Notes the state of this moment for a checkpoint that another thread writes."""
        tensors = self.saved()
        if self not in object_map:
            object_map[self] = _CopiedState(tensors)
        for name, tensor in tensors.items():
            object_map[self].variables[name].assign(tensor)


class SavedState(State):
    """The state of an accumulator, which is a child of the accumulator in checkpoints.

    It is an object of its own, because SavedModels must not contain it: they leave out this child.
    It refers only to the handle: a reference to the accumulator would make a cycle.

    Args:
        handle: Handle of the accumulator: `[] resource`.
    """

    _TYPES: Mapping[str, tf.DType] = {"state": tf.uint8}

    def __init__(self, handle: tf.Tensor) -> None:
        self.handle = handle

    def saved(self) -> dict[str, tf.Tensor]:
        return {"state": ops.condacc_accumulator_save(self.handle)}

    def _restore_from_tensors(self, restored_tensors: Mapping[str, tf.Tensor]) -> Any:
        return ops.condacc_accumulator_restore(self.handle, restored_tensors["state"])


class _CopiedState(Trackable):
    """The tensors of a state at the moment when the writing of a checkpoint began."""

    def __init__(self, tensors: Mapping[str, tf.Tensor]) -> None:
        with tf.init_scope(), tf.device("/device:CPU:0"):
            self.variables = {
                name: tf.Variable(
                    tf.zeros([0] * tensor.shape.rank, tensor.dtype),
                    shape=[None] * tensor.shape.rank,
                    trainable=False,
                )
                for name, tensor in tensors.items()
            }

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {name: variable.read_value() for name, variable in self.variables.items()}
