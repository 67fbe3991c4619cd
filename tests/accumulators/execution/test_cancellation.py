"""Tests of cancelling a take, with and without another take in front of it.

The tests run on our accumulator only. TensorFlow's own hangs after a few rounds when a take behind
another one is cancelled: the cancelled entry stays queued and is mistaken for a later one.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.support.accumulator_support import Announcement, every_kind, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind
with_and_without_a_take_in_front = pytest.mark.parametrize(
    "behind", [False, True], ids=["alone", "behind_another"]
)


@pytest.fixture(scope="module")
def server():
    return v1.train.Server.create_local_server()


def assert_unharmed(acc, front=None):
    """Asserts that the front take, if there is one, and later takes still work."""
    acc.apply([2.0], 100)
    acc.apply([4.0], 100)
    if front is not None:
        np.testing.assert_array_equal(front.result(), [3.0])
    else:
        np.testing.assert_array_equal(acc.take(2), [3.0])
    acc.apply([9.0], 100)
    np.testing.assert_array_equal(acc.take(1), [9.0])
    assert acc.count() == 0


@with_and_without_a_take_in_front
def test_run_timeout_every_time(ours, graph_driver, behind, rounds):
    acc = graph_driver(ours)
    front = acc.start_take(2) if behind else None
    options = v1.RunOptions(timeout_in_ms=1)
    for _ in range(rounds):
        with pytest.raises(tf.errors.DeadlineExceededError):
            acc.take(1, options=options)
    assert_unharmed(acc, front)


@with_and_without_a_take_in_front
def test_cancellation_manager_every_time(ours, behind, rounds):
    acc = ours.dense(tf.float32, [])
    front = Background(lambda: acc.take_grad(2).numpy()) if behind else None
    if front:
        front.wait_until_blocked()
    concrete = tf.function(lambda: acc.take_grad(1)).get_concrete_function()
    for _ in range(rounds):
        manager = cancellation.CancellationManager()
        waiting = Background(manager.get_cancelable_function(concrete))
        manager.start_cancel()
        assert isinstance(waiting.error(), tf.errors.CancelledError)
    acc.apply_grad(2.0)
    acc.apply_grad(4.0)
    assert (front.result() if front else acc.take_grad(2).numpy()) == 3.0


@with_and_without_a_take_in_front
def test_failure_of_the_step_every_time(ours, graph_driver, behind, rounds):
    acc = graph_driver(ours)
    with acc.graph.as_default():
        value = v1.placeholder(tf.float32, [])
        failing = v1.debugging.assert_positive(value)
    front = acc.start_take(2) if behind else None
    feed = {acc.required: 1, value: -1.0}
    for _ in range(rounds):
        with pytest.raises(tf.errors.InvalidArgumentError):
            acc.session.run([acc.take_op, failing], feed)
    assert_unharmed(acc, front)


@with_and_without_a_take_in_front
def test_operation_timeout_every_time(ours, graph_driver, behind, rounds):
    acc = graph_driver(ours, operation_timeout_in_ms=2)
    front = acc.start_take(2) if behind else None
    for _ in range(rounds):
        with pytest.raises(tf.errors.DeadlineExceededError):
            acc.session.run(acc.take_op, {acc.required: 1})
    assert_unharmed(acc, front)


class ServerTakes:
    """A shared accumulator on a server, with its own session and optionally a take in front."""

    def __init__(self, impl, server, behind):
        with tf.Graph().as_default() as self.graph:
            acc = impl.dense(tf.float32, [], shared_name=unique_name("server"))
            self.announcement = Announcement()
            with tf.control_dependencies([self.announcement.op]):
                self.take = acc.take_grad(1)
            self.apply, self.take_two = acc.apply_grad(2.0, 100), acc.take_grad(2)
            ready = acc.take_grad(1)
        self.session = v1.Session(server.target, graph=self.graph)
        self.session.run(self.apply)
        self.session.run([ready])
        self.front = Background(self.session.run, self.take_two) if behind else None
        if self.front:
            self.front.wait_until_blocked()

    def assert_unharmed(self):
        self.session.run(self.apply)
        self.session.run(self.apply)
        assert (self.front.result() if self.front else self.session.run(self.take_two)) == 2.0


@pytest.mark.long
@with_and_without_a_take_in_front
def test_operation_timeout_on_a_server_many_times(ours, server, behind):
    takes = ServerTakes(ours, server, behind)
    # TensorFlow hangs if a step on a server times out before it begins. So the time-out is long,
    # and on a very busy machine it may be too short.
    config = v1.ConfigProto(operation_timeout_in_ms=1000)
    with v1.Session(server.target, graph=takes.graph, config=config) as hasty:
        for _ in range(40):
            with pytest.raises(tf.errors.DeadlineExceededError):
                hasty.run(takes.take)
    takes.assert_unharmed()


@with_and_without_a_take_in_front
def test_closing_the_session_many_times(ours, server, behind, rounds):
    takes = ServerTakes(ours, server, behind)
    for _ in range(rounds // 4 if behind else rounds):  # Opening a session takes a while.
        session = v1.Session(server.target, graph=takes.graph)
        takes.announcement.clear()
        waiting = Background(session.run, takes.take)
        takes.announcement.wait()
        session.close()
        assert isinstance(waiting.error(), tf.errors.CancelledError), waiting.error()
    takes.assert_unharmed()


def test_takes_in_the_middle_of_a_long_queue_are_cancelled_and_the_others_keep_their_order(
    ours, graph_driver
):
    acc = graph_driver(ours)
    patient, cancelled = [], []
    for _ in range(10):
        patient.append(acc.start_take(1))
        cancelled.append(acc.start_cancellable_take(1))
        patient.append(acc.start_take(1))
    for take, cancel in cancelled:
        cancel()
        assert isinstance(take.error(), tf.errors.InvalidArgumentError)
    for step, take in enumerate(patient):
        acc.apply([float(step)], step)
        np.testing.assert_array_equal(take.result(), [float(step)])
