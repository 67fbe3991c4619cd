"""Updates that are applied only if a staleness gate accepts them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_condacc._host import on_host
from tf_condacc.optimizers.drop_stale._gate import StalenessGate


def update_unless_late(
    gate: StalenessGate,
    local_step: tf.Tensor,
    limit: tf.Tensor,
    update: Callable[[], Any],
    after: list[tf.Tensor],
) -> tf.Tensor:
    """Applies an update if its gate accepts it, and ends its reservation in any case.

    Args:
        gate: The gate of the step variable that the update increments.
        local_step: int64 scalar, the step at which the update's computation began.
        limit: int64 scalar, the highest staleness that is accepted.
        update: Applies the update, and returns the operation that does so in a graph.
        after: Tensors that the decision waits for in a graph.

    Returns:
        A float32 scalar: 1 if the update was dropped, 0 if it was applied. In a graph it is there
        when the reservation has ended.
    """
    if tf.executing_eagerly():
        was_applied = _update_now(gate, local_step, limit, update)
        return tf.constant(0.0 if was_applied else 1.0)

    with tf.control_dependencies(after):
        decision = gate.decide(local_step, limit)

    def accept() -> tf.Tensor:
        with tf.control_dependencies([update()]):
            return tf.constant(0)

    # Values of dtype int32 are in the memory of the host, also where GPUs compute them.
    num_dropped = tf.cond(decision.accepted, accept, lambda: tf.constant(1))
    with on_host():
        was_applied = tf.equal(num_dropped, 0)
    ended = gate.end(decision.reservation, was_applied)
    with tf.control_dependencies([ended]), on_host():
        return tf.cast(num_dropped, tf.float32)


def _update_now(
    gate: StalenessGate, local_step: tf.Tensor, limit: tf.Tensor, update: Callable[[], Any]
) -> bool:
    """Decides and updates eagerly; returns whether the update was applied.

    The reservation lives as long as its handle. Whoever keeps an error keeps the local variables of
    all functions that it came through, and so perhaps the handle; until it is gone, other updates
    would be dropped. Ctrl-C can strike anywhere: all that follows the decision is therefore inside
    of the `try`, also what is to be done in the end. Ending a reservation twice does nothing.
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
            # The decision may be in the variables of the functions that were to return it.
            traceback.clear_frames(error.__traceback__)
        else:
            gate.end(decision.reservation, was_applied)
        raise
