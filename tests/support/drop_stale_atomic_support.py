"""Updates that are under way for as long as a test wants, and the reservations that are left."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tf_condacc
from tf_condacc._optimizers.drop_stale.gate import StalenessGate

v1 = tf.compat.v1
FAR_BELOW = -(2**40)
DECIDE_OPS = ("Condacc>StalenessGateDecide", "Condacc>StalenessGateDecideRef")


def dropping(limit: int) -> Callable[[Any], Any]:
    """Returns a function that wraps an optimizer in the optimizer under test."""
    return functools.partial(tf_condacc.DropStaleGradientOptimizer, staleness=limit)


def last_decision(graph: tf.Graph) -> tf.Operation:
    """Returns the operation that decides about the update that is being built."""
    return [op for op in graph.get_operations() if op.type in DECIDE_OPS][-1]


class Descent(v1.train.GradientDescentOptimizer):
    """Subtracts gradients and increments the step, each under a lock.

    TensorFlow's own optimizers do not lock reference variables to increment the step, and lose
    increments if updates overlap.

    Args:
        before: Function of the operation that decided. It returns a zero, computed outside of the
            branch, for which the update waits.
    """

    def __init__(self, before: Callable[[tf.Operation], tf.Tensor] | None = None) -> None:
        super().__init__(1.0, use_locking=True)
        self._before = before

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        if self._before is not None:
            with tf.init_scope():
                zero = self._before(last_decision(v1.get_default_graph()))
            grads_and_vars = [(g + tf.cast(zero, g.dtype), v) for g, v in grads_and_vars]
        update = super().apply_gradients(grads_and_vars, name=name)
        with tf.control_dependencies([update]):
            return tf.group(v1.assign_add(global_step, 1, use_locking=True))


def reach(step: Any) -> tf.Tensor:
    """Returns the step after all updates in progress, as the gate expects it."""
    with tf.name_scope("reach"):
        return (
            StalenessGate(step, "reach").decide(tf.constant(0, tf.int64), FAR_BELOW * 2).staleness
        )


def check_at_rest(graph: Any, run: Callable[..., Any]) -> None:
    """Asserts that no reservation is left: the gate expects no step beyond the current one.

    The gate does not report the number of reservations. But if the step turns out to be lower than
    possible, the gate expects all of them still to come.

    Args:
        graph: An object with the step, what `reach` has returned for it, and a way to write it.
        run: Method of a session.
    """
    assert run(graph.reach) == run(graph.step)
    run(graph.jump, {graph.jump_to: FAR_BELOW})
    assert run(graph.reach) == FAR_BELOW
