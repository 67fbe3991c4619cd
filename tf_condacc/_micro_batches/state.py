"""The state of a `GradientAccumulator` as a part of object-based checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc._micro_batches.replicas import Layout, Positions, ReplicaAccumulators
from tf_condacc._micro_batches.strategies import Gatherer, own_replicas
from tf_condacc._ops.native import ops
from tf_condacc._state import State

_VERSION = 1


class GradientAccumulatorState(State):
    """The state of a `GradientAccumulator`, which is what its replicas have accumulated.

    It is one child of the object in checkpoints, whatever accumulators the gradients have made, so
    that a new object can be restored before its first micro-batch. It includes the replicas of
    other workers, so all workers must save it at the same time. The tensors are `layout`, which
    tells in JSON which accumulators there are, `[] string`; `sizes`, that of the state of each,
    `[num_accumulators] int64`; and `states`, one after another, `[n] uint8`.

    Args:
        replicas: The accumulators of the object.
        title: What error messages call the object.
    """

    _TYPES = {"layout": tf.string, "sizes": tf.int64, "states": tf.uint8}

    def __init__(self, replicas: ReplicaAccumulators, title: str) -> None:
        self._replicas = replicas
        self._title = title
        self._gatherer: Gatherer | None = None

    def saved(self) -> dict[str, tf.Tensor]:
        layout, states = self._layout_and_states()
        sizes = [tf.size(state, tf.int64) for state in states]
        text = {
            "version": _VERSION,
            "spec": self._replicas.spec(),
            "absences": sorted(map(sorted, self._replicas.absences.sets)),
            "replicas": layout,
        }
        return {
            "layout": tf.constant(json.dumps(text, sort_keys=True)),
            "sizes": tf.stack(sizes) if sizes else tf.zeros([0], tf.int64),
            "states": tf.concat(states, 0) if states else tf.zeros([0], tf.uint8),
        }

    def _layout_and_states(self) -> tuple[Layout, list[tf.Tensor]]:
        """Returns the accumulators of the replicas of all workers, and the state of each."""
        layout = self._replicas.layout()
        strategy = self._replicas.strategy_of_workers
        if strategy is None:
            return layout, _saved(self._replicas.handles())
        if not tf.executing_eagerly():
            raise RuntimeError(
                f"{self._title} has replicas on several workers, which can save it only in eager "
                "mode: each saves the states of all."
            )

        def record_of(replica: int) -> bytes:
            part = {replica: layout[replica]} if replica in layout else {}
            states = [state.numpy().tobytes() for state in _saved(self._replicas.handles(part))]
            header = json.dumps({"replicas": part, "sizes": [len(state) for state in states]})
            return b"\0".join([header.encode(), b"".join(states)])

        if self._gatherer is None:
            self._gatherer = Gatherer(strategy, self._title)
        found: dict[int, tuple[Any, list[tf.Tensor]]] = {}
        for record in self._gatherer.gathered(record_of):
            header, _, data = record.partition(b"\0")
            part = json.loads(header)
            states = _split(np.frombuffer(data, np.uint8), part["sizes"])
            found |= {int(key): (kinds, states) for key, kinds in part["replicas"].items()}
        return (
            {replica: kinds for replica, (kinds, _) in found.items()},
            [state for replica in sorted(found) for state in found[replica][1]],
        )

    def _restore_from_tensors(self, restored_tensors: Mapping[str, tf.Tensor]) -> Any:
        states, sizes = restored_tensors["states"], restored_tensors["sizes"]
        if not tf.executing_eagerly():
            return self._restore_in_graph(sizes, states)
        layout, sets = self._checked_layout(restored_tensors["layout"].numpy(), sizes, states)
        given = dict(zip(self._replicas.roles(layout), _split(states, sizes), strict=True))
        strategy = self._replicas.strategy_of_workers
        if strategy is not None:
            numbers = own_replicas(strategy)
            layout = {number: kinds for number, kinds in layout.items() if number in numbers}
            given = {role: given[role] for role in self._replicas.roles(layout)}
        self._replicas.make_all(layout)
        # A checkpoint may have been saved before some of the accumulators were made. They become
        # like new ones, whose step is 0.
        own = self._replicas.layout()
        restored = given
        if len(given) < len(self._replicas.roles(own)):
            new = self._replicas.emptied()
            new.make_all(own)
            new_states = _saved(new.handles())
            restored = {**dict(zip(self._replicas.roles(own), new_states, strict=True)), **given}
        self._replace([restored[each] for each in self._replicas.roles(own)])
        for each in sets:
            self._replicas.absences.add(each)
        return None

    def _restore_in_graph(self, sizes: tf.Tensor, states: tf.Tensor) -> tf.Operation:
        """Returns the operation that restores the accumulators, which cannot depend on a tensor."""
        handles = self._replicas.handles()
        is_right = tf.equal(tf.size(sizes), len(handles))
        text = (
            f"{self._title}: the checkpoint does not have the state of as many accumulators as "
            f"the graph: expected {len(handles)}. In a graph, the first `accumulate` makes them: "
            "restore the checkpoint after it. Got the sizes:"
        )
        with tf.control_dependencies([tf.debugging.Assert(is_right, [text, sizes])]):
            parts = tf.split(states, sizes, num=len(handles)) if handles else []
            restores = _restored(handles, parts)
            return tf.group(*restores) if restores else tf.no_op()

    def _replace(self, states: Sequence[tf.Tensor]) -> None:
        """Replaces the states of all accumulators, or of none of them if one raises an error."""
        handles = self._replicas.handles()
        try:
            before = _saved(handles)
        except tf.errors.InvalidArgumentError:  # A gradient on a GPU has a bad index.
            before = None
        try:
            _restored(handles, states)
        except Exception:
            if before is None:
                self._replicas.reset()
            else:
                _restored(handles, before)
            raise

    def _checked_layout(
        self, text: bytes, sizes: tf.Tensor, states: tf.Tensor
    ) -> tuple[Layout, list[Positions]]:
        """Returns which accumulators the checkpoint has, and the sets of absences.

        Raises:
            tf.errors.InvalidArgumentError: The state is damaged, or that of another object.
        """
        try:
            found = json.loads(text)
            if (version := found["version"]) != _VERSION:
                raise self._invalid(
                    f"The saved state has another version: expected {_VERSION}, got {version}."
                )
            spec, layout = found["spec"], found["replicas"]
            num_variables = len(spec["variables"])
            sets = [_checked_positions(each, num_variables) for each in found["absences"]]
            checked = {int(key): _checked_kinds(kinds, spec) for key, kinds in layout.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._invalid(f"The saved state is damaged: {error!r}.") from error
        own = self._replicas.spec()
        if not checked:
            own = {**own, "num_replicas": spec.get("num_replicas")}
        if spec != own:
            raise self._invalid(
                f"The saved state is that of another one: expected {own}, got {spec}."
            )
        if not all(0 <= replica < own["num_replicas"] for replica in checked):
            raise self._invalid(
                "The saved state is damaged: expected replicas from 0 to "
                f"{own['num_replicas'] - 1}, got {sorted(checked)}."
            )
        expected = range(own["num_replicas"])
        if self._replicas.strategy_of_workers and checked and set(checked) != set(expected):
            raise self._invalid(
                "The saved state is not that of all workers: expected the replicas "
                f"{list(expected)}, got {sorted(checked)}."
            )
        number = len(self._replicas.roles(checked))
        found_sizes = sizes.numpy().ravel().tolist()
        total, lowest = sum(found_sizes), min(found_sizes, default=0)
        if len(found_sizes) != number or total != len(states) or lowest < 0:
            raise self._invalid(
                f"The saved state is damaged: expected {number} states with {total} bytes, got "
                f"{len(found_sizes)} with {len(states)}."
            )
        return checked, sets

    def _invalid(self, message: str) -> tf.errors.InvalidArgumentError:
        return tf.errors.InvalidArgumentError(None, None, f"{message} ({self._title})")


def _checked_kinds(kinds: Any, spec: Any) -> dict[str, Any]:
    number = len(spec["variables"])
    sparse, has_slices = list(kinds["sparse"]), list(kinds["has_slices"])
    if len(sparse) != number or len(has_slices) != number:
        raise ValueError(f"expected {number} variables, got {len(sparse)}")
    weights = bool(kinds["weights"])
    if weights and spec["reduction_type"] != "MEAN":
        raise ValueError("expected weights only of means, got weights of sums")
    return {"sparse": sparse, "has_slices": has_slices, "weights": weights}


def _checked_positions(positions: Sequence[int], number: int) -> Positions:
    for each in positions:
        if each not in range(number):
            raise ValueError(f"expected positions of {number} variables, got {each!r}")
    return Positions(positions)


def _split(states: tf.Tensor, sizes: tf.Tensor) -> list[tf.Tensor]:
    """Splits the states, which are one after another, into those of the accumulators."""
    return tf.split(states, tf.reshape(sizes, [-1])) if tf.size(sizes) > 0 else []


def _saved(handles: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [ops.condacc_accumulator_save(handle) for handle in handles]


def _restored(handles: Sequence[tf.Tensor], states: Sequence[tf.Tensor]) -> list[Any]:
    return [
        ops.condacc_accumulator_restore(handle, state)
        for handle, state in zip(handles, states, strict=True)
    ]
