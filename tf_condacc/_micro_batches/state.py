"""The state of a `GradientAccumulator` as a part of object-based checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._micro_batches.absences import KnownAbsences, Positions
from tf_condacc._micro_batches.replicas import Layout, ReplicaAccumulators
from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import Trackable

_VERSION = 1


class GradientAccumulatorState(Trackable):
    """What a `GradientAccumulator` has accumulated, on all replicas of this process.

    It is one child of the object in checkpoints, whatever accumulators the gradients have made, so
    that a new object can be restored before its first micro-batch. The tensors are `layout`, which
    tells in JSON which accumulators there are, `[] string`; `sizes`, that of the state of each,
    `[num_accumulators] int64`; and `states`, one after another, `[n] uint8`.

    Args:
        replicas: The accumulators of the object.
        absences: The sets of variables that had no gradients.
        title: What error messages call the object.
    """

    def __init__(self, replicas: ReplicaAccumulators, absences: KnownAbsences, title: str) -> None:
        self._replicas = replicas
        self._absences = absences
        self._title = title

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        layout = self._replicas.layout()
        handles = self._replicas.handles(layout)
        states = [ops.condacc_accumulator_save(handle) for handle in handles]
        sizes = [tf.size(state, tf.int64) for state in states]
        text = {
            "version": _VERSION,
            "spec": self._replicas.spec(),
            "absences": sorted(sorted(each) for each in self._absences.sets),
            "replicas": layout,
        }
        return {
            "layout": tf.constant(json.dumps(text, sort_keys=True)),
            "sizes": tf.stack(sizes) if sizes else tf.zeros([0], tf.int64),
            "states": tf.concat(states, 0) if states else tf.zeros([0], tf.uint8),
        }

    def _restore_from_tensors(self, restored_tensors: Mapping[str, tf.Tensor]) -> Any:
        states, sizes = restored_tensors["states"], restored_tensors["sizes"]
        if not tf.executing_eagerly():  # The accumulators of a graph cannot depend on a tensor.
            handles = self._replicas.handles(self._replicas.layout())
            return tf.group(*self._restore_all(handles, sizes, states))
        layout = self._checked_layout(restored_tensors["layout"].numpy(), sizes, states)
        self._replicas.make_all(layout)
        handles = self._replicas.handles(layout)
        try:
            self._restore_all(handles, sizes, states)
        except Exception:
            self._replicas.reset()
            raise
        return None

    def _restore_all(
        self, handles: Sequence[tf.Tensor], sizes: tf.Tensor, states: tf.Tensor
    ) -> list[Any]:
        parts = tf.split(states, sizes, num=len(handles)) if handles else []
        return [
            ops.condacc_accumulator_restore(handle, state)
            for handle, state in zip(handles, parts, strict=True)
        ]

    def _checked_layout(self, text: bytes, sizes: tf.Tensor, states: tf.Tensor) -> Layout:
        """Returns which accumulators the checkpoint has, and notes the sets of absences.

        Raises:
            tf.errors.InvalidArgumentError: The state is damaged, or that of another object.
        """
        try:
            found = json.loads(text)
            version, spec, layout = found["version"], found["spec"], found["replicas"]
            sets = [Positions(int(position) for position in each) for each in found["absences"]]
            checked = {int(key): _checked_kinds(kinds, spec) for key, kinds in layout.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._invalid(f"The saved state is damaged: {error!r}.") from error
        if version != _VERSION:
            raise self._invalid(
                f"The saved state has another version: expected {_VERSION}, got {version}."
            )
        own = self._replicas.spec()
        if not checked:
            own = {**own, "num_replicas": spec.get("num_replicas")}
        if spec != own:
            raise self._invalid(
                f"The saved state is that of another one: expected {own}, got {spec}."
            )
        number = len(self._replicas.roles(checked))
        total = int(tf.reduce_sum(sizes))
        if len(sizes) != number or total != len(states) or bool(tf.reduce_any(sizes < 0)):
            raise self._invalid(
                f"The saved state is damaged: expected {number} states with {total} bytes, got "
                f"{len(sizes)} with {len(states)}."
            )
        for each in sets:
            self._absences.add(each)
        return checked

    def _invalid(self, message: str) -> tf.errors.InvalidArgumentError:
        return tf.errors.InvalidArgumentError(None, None, f"{message} ({self._title})")


def _checked_kinds(kinds: Any, spec: Any) -> dict[str, Any]:
    number = len(spec["variables"])
    sparse, has_slices = list(kinds["sparse"]), list(kinds["has_slices"])
    if len(sparse) != number or len(has_slices) != number:
        raise ValueError(f"expected {number} variables, got {len(sparse)}")
    return {"sparse": sparse, "has_slices": has_slices, "weights": bool(kinds["weights"])}
