"""The gate in front of a step variable: which updates come too late."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tf_condacc._ops import ops
from tf_condacc._typing import TensorLike

_HANDLE = "_condacc_staleness_gate"
_lock = threading.Lock()
_numbers = itertools.count()


class Decision(NamedTuple):
    """What a gate says of one update."""

    accepted: tf.Tensor  # bool
    staleness: tf.Tensor  # int64
    reservation: tf.Tensor  # resource


def new_counter() -> str:
    """A name for a counter that nobody in this process has."""
    return f"counter_{next(_numbers)}"


class StalenessGate:
    """The gate of a step variable, as one optimizer sees it.

    Args:
        step: The step variable. All optimizers that increment it share its gate, also those of
            other graphs and sessions that share the variable.
        counter: Name under which the gate counts this optimizer's updates.
        optimizer: Name of the optimizer, for the warning about an update that does not end.
    """

    def __init__(self, step: tf.Variable, counter: str, optimizer: str = "") -> None:
        self._step = step
        self._handle = _handle_of(step)
        self._counter = counter
        self._optimizer = optimizer

    def decide(self, local_step: tf.Tensor, limit: tf.Tensor) -> Decision:
        """Accepts an update or drops it.

        Args:
            local_step: int64 scalar, the step at which the update's computation began.
            limit: int64 scalar, the highest staleness that is accepted.
        """
        if self._step.dtype._is_ref_dtype:
            decide, step, types = ops.condacc_staleness_gate_decide_ref, self._step._ref(), {}
        else:
            decide, step = ops.condacc_staleness_gate_decide, self._step.handle
            types = {"T": self._step.dtype}
        arguments = [self._handle, step, local_step, limit]
        with tf_ops.colocate_with(self._step):
            return Decision(
                *decide(
                    *arguments,
                    counter=self._counter,
                    optimizer=self._optimizer,
                    name="StalenessGateDecide",
                    **types,
                )
            )

    def end(self, reservation: tf.Tensor, applied: TensorLike) -> tf.Operation | None:
        """Ends the reservation of an accepted update, unless it has ended; returns the operation.

        Args:
            reservation: As `decide` returned it, also that of an update that was dropped.
            applied: bool scalar, whether the update was applied.
        """
        with tf_ops.colocate_with(self._step):
            return ops.condacc_staleness_gate_end(reservation, applied, name="StalenessGateEnd")

    def num_accepted(self) -> tf.Tensor:
        """Returns the number of updates that were accepted and applied: an int64 scalar."""
        return self._read(ops.condacc_staleness_gate_num_accepted, "NumAccepted")

    def num_dropped(self) -> tf.Tensor:
        """Returns the number of updates that were dropped: an int64 scalar."""
        return self._read(ops.condacc_staleness_gate_num_dropped, "NumDropped")

    def recent_staleness(self) -> tf.Tensor:
        """Returns the staleness of the latest updates, 1024 at most: `[n] int64`."""
        return self._read(ops.condacc_staleness_gate_recent_staleness, "RecentStaleness")

    def _read(self, read: Callable[..., tf.Tensor], what: str) -> tf.Tensor:
        return read(self._handle, counter=self._counter, name=f"StalenessGate{what}")


def _handle_of(step: tf.Variable) -> tf.Tensor:
    """The handle of the variable's gate; made at the first call, and kept with the variable."""
    with _lock:
        if not hasattr(step, _HANDLE):
            with tf.init_scope(), tf_ops.colocate_with(step):
                setattr(step, _HANDLE, _make_gate(step))
        return getattr(step, _HANDLE)


def _make_gate(step: tf.Variable) -> tf.Tensor:
    if tf.executing_eagerly():
        return ops.condacc_staleness_gate(anonymous=True)
    maker = step.op if step.dtype._is_ref_dtype else step.handle.op
    owner = maker.get_attr("shared_name").decode() or maker.name
    return ops.condacc_staleness_gate(
        container=maker.get_attr("container").decode(),
        shared_name=f"{owner}/staleness_gate",
        name="staleness_gate",
    )
