"""The staleness gate of a step variable, which decides which updates are too late."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tf_condacc._ops.host import is_reference, scalar
from tf_condacc._ops.native import ops
from tf_condacc._tensorflow import colocated_with
from tf_condacc._typing import TensorLike

_HANDLE = "_condacc_staleness_gate"
_lock = threading.Lock()
_numbers = itertools.count()


class Decision(NamedTuple):
    """The decision of a gate about one update.

    Attributes:
        accepted: Whether the update may be applied: `[] bool`.
        staleness: Number of steps by which the update is behind: `[] int64`.
        reservation: Handle of the reserved step, which ends with the update: `[] resource`.
    """

    accepted: tf.Tensor
    staleness: tf.Tensor
    reservation: tf.Tensor


def new_counter() -> str:
    """Returns a counter name that is unique in this process."""
    return f"counter_{next(_numbers)}"


class StalenessGate:
    """One optimizer's access to the staleness gate of a step variable.

    Args:
        step: The step variable. All optimizers that increment the variable share its gate,
            including those of other graphs and sessions that share the variable.
        counter: Name under which the gate counts the updates of this optimizer.
        optimizer: Name of the optimizer, for the warning about an update that does not end.
    """

    def __init__(self, step: tf.Variable, counter: str, optimizer: str = "") -> None:
        self._step = step
        self._handle = _handle_of(step)
        self._counter = counter
        self._optimizer = optimizer

    def decide(self, local_step: tf.Tensor, limit: tf.Tensor) -> Decision:
        """Decides whether an update is applied or dropped.

        Args:
            local_step: The step at which the computation of the update began: `[] int64`.
            limit: The highest staleness that is accepted: `[] int64`.

        Returns:
            The decision. If the update was accepted, `end` must be called with its reservation.

        Raises:
            tf.errors.FailedPreconditionError: The step variable is not initialized.
            tf.errors.InvalidArgumentError: The step variable is not a scalar of its dtype.
        """
        if is_reference(self._step.dtype):
            decide, types = ops.condacc_staleness_gate_decide_ref, {}
            step = self._step.op.outputs[0]
        else:
            decide, step = ops.condacc_staleness_gate_decide, self._step.handle
            types = {"T": self._step.dtype}
        arguments = [self._handle, step, local_step, limit]
        with colocated_with(self._step):
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
        """Ends the reservation of an update. Does nothing if the reservation has already ended.

        Args:
            reservation: The reservation that `decide` returned: `[] resource`. It may be that of an
                update that was dropped.
            applied: Whether the update was applied: `[] bool`.

        Returns:
            The operation; None in eager mode.
        """
        if isinstance(applied, bool):
            applied = scalar(applied, tf.bool)
        with colocated_with(self._step):
            return ops.condacc_staleness_gate_end(reservation, applied, name="StalenessGateEnd")

    def num_accepted(self) -> tf.Tensor:
        """Returns the number of updates that were accepted and applied: `[] int64`."""
        return self._read(ops.condacc_staleness_gate_num_accepted, "NumAccepted")

    def num_dropped(self) -> tf.Tensor:
        """Returns the number of updates that were dropped: `[] int64`."""
        return self._read(ops.condacc_staleness_gate_num_dropped, "NumDropped")

    def recent_staleness(self) -> tf.Tensor:
        """Returns the staleness of the latest updates, 1024 at most: `[n] int64`."""
        return self._read(ops.condacc_staleness_gate_recent_staleness, "RecentStaleness")

    def _read(self, read: Callable[..., tf.Tensor], what: str) -> tf.Tensor:
        return read(self._handle, counter=self._counter, name=f"StalenessGate{what}")


def _handle_of(step: tf.Variable) -> tf.Tensor:
    """Returns the handle of the variable's gate: `[] resource`.

    The first call makes the gate and stores its handle as an attribute of the variable.
    """
    with _lock:
        if not hasattr(step, _HANDLE):
            with tf.init_scope(), colocated_with(step):
                setattr(step, _HANDLE, _make_gate(step))
        return getattr(step, _HANDLE)


def _make_gate(step: tf.Variable) -> tf.Tensor:
    if tf.executing_eagerly():
        return ops.condacc_staleness_gate(anonymous=True)
    maker = step.op if is_reference(step.dtype) else step.handle.op
    owner = maker.get_attr("shared_name").decode() or maker.name
    return ops.condacc_staleness_gate(
        container=maker.get_attr("container").decode(),
        shared_name=f"{owner}/staleness_gate",
        name="staleness_gate",
    )
