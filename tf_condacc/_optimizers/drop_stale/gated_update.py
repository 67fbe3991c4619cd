"""Updates that are applied only if a staleness gate accepts them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_condacc._ops.host import on_host, scalar
from tf_condacc._optimizers.drop_stale.gate import StalenessGate


def update_unless_late(
    gate: StalenessGate,
    local_step: tf.Tensor,
    limit: tf.Tensor,
    update: Callable[[], Any],
    after: list[tf.Tensor],
) -> tf.Tensor:
    """Applies an update if its gate accepts it, and ends its reservation in either case.

    Args:
        gate: The gate of the step variable that the update increments.
        local_step: The step at which the computation of the update began: `[] int64`.
        limit: The highest staleness that is accepted: `[] int64`.
        update: Applies the update. In a graph, builds the operation that applies it and returns it.
        after: Tensors that the decision waits for in a graph.

    Returns:
        1 if the update was dropped, 0 if it was applied: `[] float32`. In a graph, it is computed
        after the reservation has ended.
    """
    if tf.executing_eagerly():
        was_applied = _update_now(gate, local_step, limit, update)
        return scalar(0.0 if was_applied else 1.0, tf.float32)

    with tf.control_dependencies(after):
        decision = gate.decide(local_step, limit)

    def accept() -> tf.Tensor:
        with tf.control_dependencies([update()]):
            return tf.constant(0)

    # TensorFlow keeps int32 values in host memory, even those that GPU kernels compute.
    num_dropped = tf.cond(decision.accepted, accept, lambda: tf.constant(1))
    with on_host():
        was_applied = tf.equal(num_dropped, 0)
    ended = gate.end(decision.reservation, was_applied)
    with tf.control_dependencies([ended]), on_host():
        return tf.cast(num_dropped, tf.float32)


def _update_now(
    gate: StalenessGate, local_step: tf.Tensor, limit: tf.Tensor, update: Callable[[], Any]
) -> bool:
    """Decides and updates in eager mode, and returns whether the update was applied.

    A reservation lives as long as its handle, and other updates may be dropped meanwhile. An
    exception that someone keeps also keeps the local variables of every function in its traceback,
    and possibly the handle. The reservation is therefore ended explicitly. A KeyboardInterrupt can
    be raised at any point, so everything after the decision is inside the `try` block, including
    the last call of `end`. Ending a reservation twice has no effect.
    """
    decision, was_applied = None, False
    try:
        decision = gate.decide(local_step, limit)
        if decision.accepted:
            update()
            was_applied = True
        gate.end(decision.reservation, was_applied)
        return was_applied
    except BaseException as error:
        if decision is None:
            # The functions that were interrupted may hold the decision in their local variables.
            _clear_frames(error)
        else:
            gate.end(decision.reservation, was_applied)
        raise


def _clear_frames(error: BaseException) -> None:
    """Clears the local variables of the functions that have ended with this error."""
    traceback.clear_frames(error.__traceback__)
    this = error.__traceback__
    # In Python 3.10 and older, a frame that a debugger has inspected has a copy of its variables,
    # which is only brought up to date when it is read again.
    for frame, _ in traceback.walk_tb(this.tb_next if this is not None else None):
        _ = frame.f_locals
