"""Saving and restoring of accumulators in the checkpoints of sessions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators.base import ConditionalAccumulatorBase
from tf_condacc._state import SavedState
from tf_condacc._tensorflow import SaveableObject, SaveSpec, colocated_with

# The types of the operations that make accumulators.
_ACCUMULATORS = ("Condacc>DenseAccumulator", "Condacc>SparseAccumulator")
# The last part of the keys of accumulators in the checkpoints of sessions. TensorFlow's error for a
# key that a checkpoint does not have contains it, and so tells what has saved the key.
_KEY = "tf_condacc.saveables()"
# The collection of the names of the operations that make accumulators which are not saved.
_LEFT_OUT = "tf_condacc_accumulators_without_saveables"


def saveables() -> list[Any]:
    """Returns objects by which a ``tf.compat.v1.train.Saver`` saves the graph's accumulators.

    A Saver that is made with them saves and restores the accumulated gradients, the contributors,
    the step and the number of dropped gradients of each accumulator of the default graph. It leaves
    out the accumulators of `SyncReplicasOptimizer`, whose rounds begin anew after a restart:

    ```python
    saver = tf.compat.v1.train.Saver(
        var_list=[*tf.compat.v1.global_variables(), *tf_condacc.saveables()]
    )
    ```

    A Saver that is made without a list, and that of a ``MonitoredTrainingSession``, save them if
    they are in the collection ``tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS`` when it is made.

    A training that is restored from the checkpoint continues in the middle of a round, with the
    same bits. ``tf.train.Checkpoint`` saves accumulators without this function. TensorFlow's own
    accumulators cannot be saved.

    A checkpoint of a Saver that was made without these objects cannot be restored with them: the
    Saver raises ``tf.errors.NotFoundError``, whose message names this function. A Saver that was
    made without them restores the variables and leaves the gradients of the time before: run the
    operation of ``reset()`` of each accumulator after it.

    Returns:
        A ``SaveableObject`` for each accumulator. Its name is that of the operation. The key in
        checkpoints is this name, followed by "/tf_condacc.saveables()".

    Raises:
        RuntimeError: It is called in eager mode, where ``tf.train.Checkpoint`` saves accumulators.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "tf_condacc.saveables() is for graphs with sessions. In eager mode, "
            "tf.train.Checkpoint saves accumulators that are its attributes, or those of objects "
            "in it."
        )
    left_out = set(v1.get_collection(_LEFT_OUT))
    return [
        _Saveable(op.outputs[0])
        for op in v1.get_default_graph().get_operations()
        if op.type in _ACCUMULATORS and op.name not in left_out
    ]


def leave_out(accumulator: ConditionalAccumulatorBase) -> None:
    """Leaves an accumulator of the default graph out of `saveables`.

    The rounds of `SyncReplicasOptimizer` are those of its gate, which begins anew after a restart:
    an accumulator of a later round would refuse all gradients.
    """
    v1.add_to_collection(_LEFT_OUT, accumulator.accumulator_ref.op.name)


class _Saveable(SaveableObject):
    """An accumulator of a graph, as a Saver saves it.

    Args:
        handle: Handle of the accumulator: `[] resource`.
    """

    def __init__(self, handle: tf.Tensor) -> None:
        self._state = SavedState(handle)
        name = handle.op.name
        with handle.graph.as_default(), colocated_with(handle.op, ignore_existing=True):
            saved = self._state.saved()["state"]
        # A meta graph has the names of collected objects, which its import looks up in the graph.
        super().__init__(handle, [SaveSpec(saved, "", f"{name}/{_KEY}")], name)

    def restore(
        self, restored_tensors: list[tf.Tensor], restored_shapes: object
    ) -> tf.Operation | None:
        """Returns the operation that restores the state."""
        del restored_shapes
        with colocated_with(self._state.handle.op, ignore_existing=True):
            return self._state._restore_from_tensors({"state": restored_tensors[0]})
