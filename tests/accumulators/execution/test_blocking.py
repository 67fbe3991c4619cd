"""Tests of waiting takes: they hold no thread, complete in order, and can be cancelled."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.support.accumulator_support import PATIENT, every_kind, needs_resource, unique_name
from tests.support.waiting import Background, until_set

v1 = tf.compat.v1
pytestmark = every_kind


def test_take_waits_for_enough_gradients(impl, driver):
    acc = driver(impl)
    waiting = acc.start_take(3)
    for value in (1.0, 2.0):
        acc.apply([value])
        assert not waiting.done
    assert acc.count() == 2
    acc.apply([6.0])
    np.testing.assert_array_equal(waiting.result(), [3.0])
    assert acc.count() == 0


def test_four_waiting_takes_on_one_thread_are_completed_by_applies(impl, graph_driver):
    acc = graph_driver(impl)
    waiting = [acc.start_take(1) for _ in range(4)]
    for step in range(4):
        acc.apply([float(step)], step)
    assert sorted(float(w.result()[0]) for w in waiting) == [0.0, 1.0, 2.0, 3.0]


def test_four_waiting_takes_in_one_step_on_one_thread_are_completed_by_its_applies(impl):
    config = v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        accumulators = [impl.dense(tf.float32, []) for _ in range(4)]
        takes = [acc.take_grad(2) for acc in accumulators]
        applies = [acc.apply_grad(v) for acc in accumulators for v in (1.0, 3.0)]
        assert session.run([takes, applies])[0] == [2.0] * 4


def test_takes_are_served_in_the_order_of_their_arrival(impl, driver):
    acc = driver(impl)
    waiting = [acc.start_take(1) for _ in range(6)]
    for step in range(6):
        acc.apply([float(step)], step)
        assert waiting[step].result() == [float(step)]
        assert not any(w.done for w in waiting[step + 1 :])


def test_first_take_holds_back_those_behind_it(impl, driver):
    acc = driver(impl, reduction_type="SUM")
    first, second = acc.start_take(3), acc.start_take(1)
    acc.apply([1.0])
    acc.apply([1.0])
    assert acc.count() == 2, "take(1) must wait behind take(3)"
    assert not second.done
    acc.apply([1.0])
    assert first.result() == [3.0]
    assert acc.count() == 0 and not second.done
    acc.apply([5.0], 1)
    assert second.result() == [5.0]


def test_take_that_arrives_ready_waits_behind_the_first(impl, driver):
    acc = driver(impl, reduction_type="SUM")
    first = acc.start_take(2)
    acc.apply([1.0])
    second = acc.start_take(1)
    assert acc.count() == 1
    acc.apply([1.0])
    assert first.result() == [2.0]
    acc.apply([7.0], 1)
    assert second.result() == [7.0]


def test_cancelled_first_take_lets_the_next_one_through(impl, graph_driver):
    acc = graph_driver(impl)
    first, cancel = acc.start_cancellable_take(3)
    second = acc.start_take(1)
    acc.apply([5.0])
    assert not first.done and not second.done
    cancel()
    assert isinstance(first.error(), tf.errors.InvalidArgumentError)
    assert second.result() == [5.0]


def test_closing_the_session_cancels_its_takes(impl, graph_driver):
    acc = graph_driver(impl)
    waiting = [acc.start_take(required) for required in (2, 1, 3)]
    acc.session.close()
    for take in waiting:
        error = take.error()
        assert isinstance(error, tf.errors.CancelledError)
        assert "was cancelled" in str(error)


def test_run_timeout_consumes_nothing_and_later_takes_work(impl, graph_driver):
    acc = graph_driver(impl)
    acc.apply([1.0])
    for _ in range(5):
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting"):
            acc.take(2, options=v1.RunOptions(timeout_in_ms=5))
        assert acc.count() == 1
    acc.apply([3.0])
    assert acc.take(2) == [2.0]


def test_operation_timeout_consumes_nothing_and_later_takes_work(impl):
    config = v1.ConfigProto(operation_timeout_in_ms=20)
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        acc = impl.dense(tf.float32, [])
        take = acc.take_grad(2)
        session.run(acc.apply_grad(1.0), options=PATIENT)
        for _ in range(5):
            with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting"):
                session.run(take)
        assert session.run(acc.num_accumulated(), options=PATIENT) == 1
        session.run(acc.apply_grad(3.0), options=PATIENT)
        assert session.run(take, options=PATIENT) == 2.0


def test_failure_of_another_op_in_the_step_cancels_the_take(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        take = acc.take_grad(2)
        session.run(acc.apply_grad(1.0))
        value = v1.placeholder(tf.float32, [])
        failing = v1.debugging.assert_positive(value, message="the sibling failed")
        for _ in range(5):
            with pytest.raises(tf.errors.InvalidArgumentError, match="the sibling failed"):
                session.run([take, failing], {value: -1.0})
        assert session.run(acc.num_accumulated()) == 1
        session.run(acc.apply_grad(3.0))
        assert session.run([take, failing], {value: 1.0})[0] == 2.0


def test_coordinator_does_not_wake_a_take_but_closing_the_session_does(impl, graph_driver):
    acc = graph_driver(impl)
    waiting = acc.start_take(1)
    coordinator = v1.train.Coordinator()
    coordinator.register_thread(waiting._thread)
    coordinator.request_stop()
    with pytest.raises(RuntimeError, match="Coordinator stopped with threads still running"):
        coordinator.join(stop_grace_period_secs=0.05)
    acc.session.close()
    assert isinstance(waiting.error(), tf.errors.CancelledError)


def cancellable_take(impl, acc, num_required):
    """Returns a cancellation manager and a take that it cancels."""
    manager = cancellation.CancellationManager()
    concrete = tf.function(lambda: acc.take_grad(num_required)).get_concrete_function()
    return manager, manager.get_cancelable_function(concrete)


@needs_resource
def test_cancellation_manager_cancels_a_take_in_a_function(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    acc.apply_grad(4.0)
    manager, take = cancellable_take(impl, acc, 2)
    waiting = Background(take)
    waiting.wait_until_blocked()
    manager.start_cancel()
    error = waiting.error()
    assert isinstance(error, tf.errors.CancelledError)
    assert "was cancelled" in str(error)
    assert int(acc.num_accumulated()) == 1
    assert acc.take_grad(1).numpy() == 4.0


@needs_resource
def test_take_in_a_step_that_is_cancelled_already_takes_nothing(impl):
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


@needs_resource
def test_eager_take_holds_up_only_its_own_thread(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    waiting = Background(lambda: acc.take_grad(2).numpy())
    waiting.wait_until_blocked()
    assert (tf.ones([3]) + 1.0).numpy().tolist() == [2.0] * 3
    acc.apply_grad(1.0)
    assert int(acc.num_accumulated()) == 1
    acc.apply_grad(3.0)
    assert waiting.result() == 2.0


@needs_resource
def test_take_in_a_function_is_completed_by_an_eager_apply(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    waiting = Background(lambda: tf.function(lambda: acc.take_grad(1))().numpy())
    waiting.wait_until_blocked()
    acc.apply_grad(5.0)
    assert waiting.result() == 5.0
