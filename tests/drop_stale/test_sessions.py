"""Tests of MonitoredTrainingSession and Supervisor, and of training inside loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    Interlude,
    LateTraining,
    drop_stale,
    every_switches,
    global_step,
    half_square,
    new_session,
    stale_counter,
)

v1 = tf.compat.v1


class LateEveryOtherTime(v1.train.SessionRunHook):
    """Makes every second update stale."""

    def __init__(self, training: LateTraining) -> None:
        self._training = training
        self._advance = v1.assign_add(training.step, 1)
        self._session: Any = None
        self._late = True
        training.interlude.action = self._maybe_advance

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        self._session = session

    def _maybe_advance(self) -> None:
        self._late = not self._late
        if self._late:
            self._session.run(self._advance)


def train_until(last_step: int, directory: str) -> tuple[int, int]:
    """Trains in a monitored session; returns the numbers of accepted and dropped updates in it."""
    training = LateTraining()
    counts = [training.optimizer.num_accepted(), training.optimizer.num_dropped()]
    hooks = [v1.train.StopAtStepHook(last_step=last_step), LateEveryOtherTime(training)]
    with v1.train.MonitoredTrainingSession(
        checkpoint_dir=directory,
        hooks=hooks,
        save_summaries_steps=1,
        log_step_count_steps=None,
        config=v1.ConfigProto(inter_op_parallelism_threads=4),
    ) as session:
        assert v1.get_default_graph().finalized
        while not session.should_stop():
            session.run(training.train)
            accepted, dropped = session._tf_sess().run(counts)
    return int(accepted), int(dropped)


def test_monitored_session_trains_saves_and_goes_on(v1_graph, tmp_path):
    assert train_until(6, str(tmp_path)) == (3, 3)
    (path,) = tmp_path.glob("events*")
    values = [
        each for event in v1.train.summary_iterator(str(path)) for each in event.summary.value
    ]
    histograms = [each.histo.num for each in values if each.tag == "Gradient_staleness"]
    assert "Gradient_staleness_percentage" in {each.tag for each in values}
    assert histograms and max(histograms) <= 6
    last = tf.train.latest_checkpoint(str(tmp_path))
    assert tf.train.load_variable(last, "global_step") == 6
    assert tf.train.load_variable(last, "stale_counter") == 3.0
    np.testing.assert_array_equal(tf.train.load_variable(last, "w"), np.divide(START, 8.0))
    with tf.Graph().as_default():
        assert train_until(8, str(tmp_path)) == (1, 1)
    last = tf.train.latest_checkpoint(str(tmp_path))
    assert tf.train.load_variable(last, "stale_counter") == 4.0
    np.testing.assert_array_equal(tf.train.load_variable(last, "w"), np.divide(START, 16.0))


def test_supervisor_trains_and_saves(v1_graph, tmp_path):
    training = LateTraining()
    advance = v1.assign_add(training.step, 1)
    supervisor = v1.train.Supervisor(
        logdir=str(tmp_path),
        global_step=training.step,
        summary_op=None,
        save_summaries_secs=0,
        save_model_secs=0,
    )
    config = v1.ConfigProto(inter_op_parallelism_threads=4)
    with supervisor.managed_session(config=config) as session:
        counts = []
        for late in (False, True, False):
            training.interlude.action = (lambda: session.run(advance)) if late else lambda: None
            counts.append(session.run(training.train))
        assert not supervisor.should_stop()
        path = supervisor.saver.save(session, str(tmp_path / "model.ckpt"))
        supervisor.request_stop()
    assert counts == [0.0, 1.0, 1.0]
    assert tf.train.load_variable(path, "global_step") == 3
    np.testing.assert_array_equal(tf.train.load_variable(path, "w"), np.divide(START, 4.0))


class Inside:
    """Training that is built in the body of a loop or in a branch."""

    def __init__(self, limit: int = 0) -> None:
        self.step, self.interlude = global_step(), Interlude()
        self.weights = v1.get_variable("w", initializer=tf.constant(START))
        self.optimizer = drop_stale(limit)
        self.advance = v1.assign_add(self.step, 1)

    def minimize(self) -> tf.Tensor:
        loss = half_square(self.interlude(tf.identity(self.weights.read_value())))
        return self.optimizer.minimize(loss, self.step, [self.weights])

    def counts(self) -> list[tf.Tensor]:
        return [self.optimizer.num_accepted(), self.optimizer.num_dropped()]


@every_switches
def test_inside_a_while_loop(switches):
    inside = Inside()

    def body(i, _):
        with tf.control_dependencies([inside.minimize()]):
            return i + 1, tf.identity(inside.weights.read_value())

    loop = v1.while_loop(
        lambda i, _: i < 5, body, [tf.constant(0), tf.zeros([3])], parallel_iterations=1
    )
    counts = inside.counts()
    late = [False, True, True, False, False]
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        passes = iter(late)
        inside.interlude.action = lambda: next(passes) and session.run(inside.advance)
        session.run(loop)
        assert session.run(inside.step) == 5
        assert session.run(counts) == [3, 2]
        assert session.run(stale_counter()) == 2.0
        np.testing.assert_array_equal(session.run(inside.weights), np.divide(START, 8.0))


@every_switches
def test_inside_a_branch(switches):
    inside = Inside()
    chosen = v1.placeholder(tf.bool, [])
    train = v1.cond(chosen, lambda: tf.identity(inside.minimize()), lambda: tf.constant(-1.0))
    either = v1.cond(chosen, *[lambda: tf.identity(inside.minimize())] * 2)
    assert [v.op.name for v in v1.global_variables()].count("stale_counter") == 1
    counts = inside.counts()
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train, {chosen: False}) == -1.0
        assert session.run(counts) == [0, 0]
        assert session.run(train, {chosen: True}) == 0.0
        inside.interlude.action = lambda: session.run(inside.advance)
        assert session.run(train, {chosen: True}) == 1.0
        assert session.run([inside.step, *counts]) == [2, 1, 1]
        np.testing.assert_array_equal(session.run(inside.weights), np.divide(START, 2.0))
        inside.interlude.action = lambda: None
        assert [session.run(either, {chosen: side}) for side in (True, False)] == [1.0, 1.0]
        assert session.run([inside.step, *counts]) == [4, 3, 1]


@every_switches
def test_loss_of_many_iterations_is_one_update(switches):
    """The model resembles a dynamic RNN, whose gradients need the values of every iteration."""
    step, interlude = global_step(), Interlude()
    weights = v1.get_variable("w", initializer=tf.constant([2.0]))
    value = interlude(tf.convert_to_tensor(weights))
    product = v1.while_loop(
        lambda i, _: i < 3, lambda i, so_far: (i + 1, so_far * value), [tf.constant(0), value / 4.0]
    )[1]
    optimizer = drop_stale(0, v1.train.GradientDescentOptimizer(0.125))
    train = optimizer.minimize(tf.reduce_sum(product), step, [weights])
    advance = v1.assign_add(step, 1)
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        interlude.action = lambda: session.run(advance)
        assert session.run(train) == 1.0
        interlude.action = lambda: None
        assert session.run(train) == 1.0
        assert session.run(weights) == [1.0], "the gradient of w**4 / 4 is w**3"


@every_switches
@pytest.mark.parametrize("second", ["same", "other"])
def test_loss_of_a_loop_can_be_differentiated_again(switches, second):
    step = global_step()
    weights = v1.get_variable("w", initializer=tf.constant([2.0]))
    value = tf.convert_to_tensor(weights)
    product = v1.while_loop(
        lambda i, _: i < 3, lambda i, so_far: (i + 1, so_far * value), [tf.constant(0), value / 4.0]
    )[1]
    loss = tf.reduce_sum(product)
    optimizers = [drop_stale(0, v1.train.GradientDescentOptimizer(0.125))]
    optimizers.append(optimizers[0] if second == "same" else drop_stale())
    trains = [optimizer.minimize(loss, step, [weights]) for optimizer in optimizers]
    (gradient,) = v1.gradients(loss, [weights])
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(gradient) == [8.0]
        assert [session.run(train) for train in trains] == [0.0, 0.0]
        assert session.run(step) == 2
