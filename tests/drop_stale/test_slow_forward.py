"""Tests of the local step, which is read before a slow forward pass in any case."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    Interlude,
    assert_read_after_local_step,
    drop_stale,
    every_switches,
    global_step,
    half_square,
    new_session,
)
from tests.support.waiting import PATIENCE_SECS, Background

v1 = tf.compat.v1


class SlowForwardPass:
    """A forward pass that pauses until it is told to go on.

    Attributes:
        interlude: The interlude that the forward pass goes through.
    """

    def __init__(self) -> None:
        self.interlude = Interlude()
        self.interlude.action = self._stand_still
        self._begun, self._go_on = threading.Event(), threading.Event()

    def _stand_still(self) -> None:
        self._begun.set()
        assert self._go_on.wait(PATIENCE_SECS), "nobody told the forward pass to go on"

    def run(self, session: v1.Session, train: Any, meanwhile: Callable[[], Any]) -> Any:
        """Trains once, and calls `meanwhile` during the forward pass."""
        self._begun.clear()
        self._go_on.clear()
        step = Background(session.run, train)
        assert self._begun.wait(PATIENCE_SECS), "the forward pass did not begin"
        meanwhile()
        self._go_on.set()
        return step.result()


def batch_norm(value: tf.Tensor) -> tf.Tensor:
    """Returns a normalized batch; adds the updates of the moving averages to UPDATE_OPS."""
    channels = value.shape[-1]
    normalized, mean, variance = v1.nn.fused_batch_norm(
        value, tf.ones([channels]), tf.zeros([channels]), is_training=True
    )[:3]
    for name, new in (("moving_mean", mean), ("moving_variance", variance)):
        average = v1.get_variable(name, shape=[channels], trainable=False)
        update = v1.assign_sub(average, (average - new) * 0.5)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return normalized


@every_switches
def test_under_update_ops_of_a_slow_batch_norm(switches):
    step, slow = global_step(), SlowForwardPass()
    weights = v1.get_variable("w", initializer=tf.ones([2, 3]))
    batch = tf.reshape(tf.range(8.0), [4, 2])
    hidden = slow.interlude(tf.matmul(batch, tf.convert_to_tensor(weights)))
    normalized = batch_norm(tf.reshape(hidden, [4, 1, 1, 3]))
    loss = half_square(normalized - 1.0)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    optimizer = drop_stale()
    with tf.control_dependencies(updates):
        train = optimizer.minimize(loss, step, [weights])
    assert_read_after_local_step(loss, weights)
    counts = [optimizer.num_accepted(), optimizer.num_dropped()]
    advance = v1.assign_add(step, 1)
    (average,) = [v for v in v1.global_variables() if v.op.name == "moving_mean"]
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        session.run(average.assign([0.0, 0.0, 0.0]))
        assert slow.run(session, train, lambda: session.run(advance)) == 1.0
        np.testing.assert_array_equal(session.run(weights), np.ones([2, 3]))
        np.testing.assert_array_equal(session.run(average), [3.5, 3.5, 3.5], "is not dropped")
        assert slow.run(session, train, lambda: None) == 1.0
        assert session.run(step) == 2
        assert session.run(counts) == [1, 1]


def test_under_control_dependencies_on_the_whole_forward_pass(switches):
    step, slow, weights = (
        global_step(),
        SlowForwardPass(),
        v1.get_variable("w", initializer=tf.constant(START)),
    )
    loss = half_square(slow.interlude(tf.identity(weights)))
    optimizer = drop_stale()
    with tf.control_dependencies([loss]):
        pairs = optimizer.compute_gradients(tf.identity(loss))
    assert_read_after_local_step(loss, weights)
    train = optimizer.apply_gradients(pairs, step)
    advance = v1.assign_add(step, 1)
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert slow.run(session, train, lambda: session.run(advance)) == 1.0
        assert slow.run(session, train, lambda: None) == 1.0
        np.testing.assert_array_equal(session.run(weights), np.divide(START, 2.0))
