"""Tests of takes that are cancelled: nothing is taken, and all other takes go on.

This is the only place for what TensorFlow cancels a take with, and for what happens to the other
takes then. tests/cc/accumulator/accumulator_cancel_test.cc and the explorer have the orders of
cancels and applies.

TensorFlow's own accumulator hangs after a few rounds when a take behind another one is cancelled:
the cancelled entry stays queued and is mistaken for a later one.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.support.accumulator_support import (
    Announcement,
    every_kind,
    needs_resource,
    unique_name,
)
from tests.support.waiting import Background, until_set

v1 = tf.compat.v1
pytestmark = every_kind
with_and_without_a_take_in_front = pytest.mark.parametrize(
    "behind", [False, True], ids=["alone", "behind_another"]
)


def run_timeout(acc) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting"):
        acc.take(2, options=v1.RunOptions(timeout_in_ms=1))


def operation_timeout(acc) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting"):
        acc.session.run(*acc.operation("take", required=2))


def failure_of_the_step(acc) -> None:
    with acc.graph.as_default():
        failing = v1.debugging.assert_positive(v1.placeholder_with_default(-1.0, []))
    take, feed = acc.operation("take", required=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x > 0"):
        acc.run([take, failing], feed)


def cancellation_manager(acc) -> None:
    take = tf.function(lambda: acc.accumulator.take_grad(2)).get_concrete_function()
    manager = cancellation.CancellationManager()
    waiting = Background(manager.get_cancelable_function(take))
    manager.start_cancel()
    error = waiting.error()
    assert isinstance(error, tf.errors.CancelledError) and "was cancelled" in str(error)


@pytest.fixture(params=[run_timeout, operation_timeout, failure_of_the_step])
def cancel_a_take(request):
    return request.param


def check(acc, cancel_a_take, rounds: int, behind: bool) -> None:
    """Cancels takes, and checks that a take in front, if there is one, and later ones work."""
    front = acc.start_take(2) if behind else None
    acc.apply([2.0], 100)
    for _ in range(rounds):
        cancel_a_take(acc)
    assert acc.count() == 1
    acc.apply([4.0], 100)
    np.testing.assert_array_equal(front.result() if front else acc.take(2), [3.0])
    acc.apply([9.0], 100)
    np.testing.assert_array_equal(acc.take(1), [9.0])
    assert acc.count() == 0


def test_a_cancelled_take_takes_nothing(impl, graph_driver, cancel_a_take):
    check(graph_driver(impl, operation_timeout_in_ms=2), cancel_a_take, 5, behind=False)


@with_and_without_a_take_in_front
def test_takes_are_cancelled_every_time(ours, graph_driver, cancel_a_take, behind, rounds):
    check(graph_driver(ours, operation_timeout_in_ms=2), cancel_a_take, rounds, behind)


@pytest.mark.kinds("dense")  # The driver of the sparse one is a session.
@with_and_without_a_take_in_front
def test_a_cancellation_manager_cancels_every_time(ours, driver, behind, rounds):
    check(driver(ours), cancellation_manager, rounds, behind)


@needs_resource
def test_a_cancellation_manager_cancels_a_take_that_waits(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    acc.apply_grad(4.0)
    manager = cancellation.CancellationManager()
    concrete = tf.function(lambda: acc.take_grad(2)).get_concrete_function()
    waiting = Background(manager.get_cancelable_function(concrete))
    waiting.wait_until_blocked()
    manager.start_cancel()
    assert isinstance(waiting.error(), tf.errors.CancelledError)
    assert int(acc.num_accumulated()) == 1
    assert acc.take_grad(1).numpy() == 4.0


@needs_resource
def test_a_take_in_a_step_that_is_cancelled_already_takes_nothing(impl):
    """This holds even if there are enough gradients, because nobody would get the taken value."""
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    acc.apply_grad(4.0)
    entered, cancelled = threading.Event(), threading.Event()

    def hold_up():
        entered.set()
        until_set(cancelled, "the step is cancelled")

    @tf.function
    def take():
        with tf.control_dependencies(tf.nest.flatten(tf.numpy_function(hold_up, [], []))):
            return acc.take_grad(1)

    manager = cancellation.CancellationManager()
    waiting = Background(manager.get_cancelable_function(take.get_concrete_function()))
    until_set(entered, "the step begins")
    manager.start_cancel()
    cancelled.set()
    assert isinstance(waiting.error(), tf.errors.CancelledError)
    assert int(acc.num_accumulated()) == 1
    assert acc.take_grad(1).numpy() == 4.0


def test_takes_in_the_middle_of_a_queue_are_cancelled_and_the_others_keep_their_order(
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


def test_cancelled_first_take_lets_the_next_one_through(impl, graph_driver):
    acc = graph_driver(impl)
    first, cancel = acc.start_cancellable_take(3)
    second = acc.start_take(1)
    acc.apply([5.0])
    assert not first.done and not second.done
    cancel()
    assert isinstance(first.error(), tf.errors.InvalidArgumentError)
    assert second.result() == [5.0]


def test_only_the_end_of_a_session_ends_its_takes(impl, graph_driver):
    acc = graph_driver(impl)
    waiting = [acc.start_take(required) for required in (2, 1, 3)]
    coordinator = v1.train.Coordinator()
    coordinator.register_thread(waiting[0]._thread)
    coordinator.request_stop()
    with pytest.raises(RuntimeError, match="Coordinator stopped with threads still running"):
        coordinator.join(stop_grace_period_secs=0.05)
    acc.session.close()
    for take in waiting:
        error = take.error()
        assert isinstance(error, tf.errors.CancelledError)
        assert "was cancelled" in str(error)


class ServerTakes:
    """A shared accumulator on a server, with its own session and optionally a take in front."""

    def __init__(self, impl, behind):
        self.target = v1.train.Server.create_local_server().target
        with tf.Graph().as_default() as self.graph:
            acc = impl.dense(tf.float32, [], shared_name=unique_name("server"))
            self.announcement = Announcement()
            with tf.control_dependencies([self.announcement.op]):
                self.take = acc.take_grad(2)
            self.apply, self.take_two = acc.apply_grad(2.0, 100), acc.take_grad(2)
            self.count = acc.num_accumulated()
        self.session = v1.Session(self.target, graph=self.graph)
        self.session.run(self.count)
        self.front = Background(self.session.run, self.take_two) if behind else None
        if self.front:
            self.front.wait_until_blocked()
        self.session.run(self.apply)

    def assert_unharmed(self):
        assert self.session.run(self.count) == 1
        self.session.run(self.apply)
        assert (self.front.result() if self.front else self.session.run(self.take_two)) == 2.0


@pytest.mark.long
@with_and_without_a_take_in_front
def test_operation_timeout_on_a_server_many_times(ours, behind):
    takes = ServerTakes(ours, behind)
    # TensorFlow hangs if a step on a server times out before it begins. So the time-out is long,
    # and on a very busy machine it may be too short.
    config = v1.ConfigProto(operation_timeout_in_ms=1000)
    with v1.Session(takes.target, graph=takes.graph, config=config) as hasty:
        for _ in range(40):
            with pytest.raises(tf.errors.DeadlineExceededError):
                hasty.run(takes.take)
        with pytest.raises(tf.errors.DeadlineExceededError):
            hasty.run(takes.take, options=v1.RunOptions(timeout_in_ms=1000))
    takes.assert_unharmed()


@with_and_without_a_take_in_front
def test_closing_the_session_on_a_server_many_times(ours, behind, rounds):
    takes = ServerTakes(ours, behind)
    for _ in range(rounds // 4 if behind else rounds):  # Opening a session takes a while.
        session = v1.Session(takes.target, graph=takes.graph)
        takes.announcement.clear()
        waiting = Background(session.run, takes.take)
        takes.announcement.wait()
        session.close()
        assert isinstance(waiting.error(), tf.errors.CancelledError), waiting.error()
    takes.assert_unharmed()
