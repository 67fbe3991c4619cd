"""Tests of accepted updates that fail or are cancelled: they are not counted and block nothing."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support.drop_stale_atomic_support import Descent, check_at_rest, dropping, reach
from tests.support.drop_stale_support import every_switches
from tests.support.many_threads import many_threaded_session

v1 = tf.compat.v1


class Interrupted(Descent):
    """Runs `begun` in the accepted branch before anything is applied, and `applied` afterwards."""

    def __init__(self, begun, applied) -> None:
        super().__init__()
        self._begun, self._applied = begun, applied

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        with tf.control_dependencies([self._begun()]):
            pairs = [(tf.identity(gradient), variable) for gradient, variable in grads_and_vars]
        update = super().apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies([update]):
            return tf.group(self._applied())


class Trainee:
    """A graph with two updates at limit 0, one that is interrupted as requested and a plain one."""

    def __init__(self, begun=tf.no_op, applied=tf.no_op, others=lambda: None) -> None:
        with tf.Graph().as_default() as self.graph:
            self.step = v1.train.get_or_create_global_step()
            self.weights = v1.get_variable("weights", initializer=tf.constant(0.0))
            self._interrupted = dropping(0)(Interrupted(begun, applied))
            self.train = self._interrupted.minimize(-self.weights, self.step)
            plain = dropping(0)(Descent())
            self.train_well = plain.minimize(-self.weights, self.step)
            self.well_accepted = plain.num_accepted()
            self.num_accepted = self._interrupted.num_accepted()
            self.num_dropped = self._interrupted.num_dropped() + plain.num_dropped()
            self.reach = reach(self.step)
            self.jump_to = v1.placeholder(tf.int64, [])
            self.jump = v1.assign(self.step, self.jump_to)
            self.other = others()
            self.init = v1.global_variables_initializer()

    def started(self) -> v1.Session:
        session = many_threaded_session(self.graph)
        session.run(self.init)
        return session

    def expect(self, session, step, accepted, weights=None) -> None:
        assert (session.run(self.step), session.run(self.num_accepted)) == (step, accepted)
        assert session.run(self.weights) == (step if weights is None else weights)
        assert session.run(self.num_dropped) == 0
        assert session.run(self.reach) == step

    def expect_next_to_be_accepted(self, session) -> None:
        before = session.run([self.step, self.well_accepted])
        session.run(self.train_well)
        assert session.run([self.step, self.well_accepted]) == [n + 1 for n in before]
        check_at_rest(self, session.run)


def raises() -> tf.Operation:
    """Returns an operation that fails unless 1 is fed to "good"."""
    with tf.init_scope(), v1.name_scope(None):
        good = v1.placeholder_with_default(0, [], name="good")
    return tf.debugging.assert_equal(good, 1)


@every_switches
@pytest.mark.parametrize("where", ["begun", "applied"])
def test_failed_updates_are_not_counted_and_give_up_their_reservation(switches, where, rounds):
    trainee = Trainee(**{where: raises})
    good = trainee.graph.get_tensor_by_name("good:0")
    with trainee.started() as session:
        for number in range(rounds):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(trainee.train)
            assert session.run(trainee.reach) == (number + 1 if where == "applied" else 0)
        step = rounds if where == "applied" else 0
        trainee.expect(session, step, accepted=0)
        session.run(trainee.train, {good: 1})
        trainee.expect(session, step + 1, accepted=1)
        trainee.expect_next_to_be_accepted(session)


def test_update_cancelled_by_another_fetch_is_not_counted(v1_graph, rounds):
    """The update waits in a queue until the failure of another fetch cancels it."""
    queues = {}

    def begun():
        with tf.init_scope():
            announced = queues["announced"] = tf.queue.FIFOQueue(1, [tf.int32], [()])
            never = tf.queue.FIFOQueue(1, [tf.int32], [()])
        with tf.control_dependencies([announced.enqueue(0)]):
            return never.dequeue()

    def fail_when_announced():
        with tf.control_dependencies([queues["announced"].dequeue()]):
            return tf.debugging.assert_equal(v1.placeholder_with_default(0, []), 1)

    trainee = Trainee(begun, others=fail_when_announced)
    with trainee.started() as session:
        for _ in range(rounds):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run([trainee.train, trainee.other])
            assert session.run(trainee.reach) == 0
        trainee.expect(session, 0, accepted=0)
        trainee.expect_next_to_be_accepted(session)
