"""Tests of gradients that become ready together: the limit holds between all accepted ones."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tests.support.drop_stale_atomic_support import (
    Descent,
    Record,
    Try,
    Workers,
    check,
    dropping,
    last_decision,
)
from tests.support.drop_stale_support import every_switches
from tests.support.many_threads import many_threaded_session
from tests.support.waiting import Background

v1 = tf.compat.v1


def in_one_run(workers: Workers, session: v1.Session, rounds: int) -> Record:
    record = Record()
    for _ in range(rounds):
        record.add(*session.run(workers.tries))
    return record


def started(workers: Workers) -> v1.Session:
    session = many_threaded_session(workers.graph)
    session.run(workers.init)
    return session


@pytest.mark.parametrize(
    "limit, overlap",
    [(0, True), (0, False), (1, True), (3, True), (3, False), (7, True)],
)
def test_one_more_than_the_limit_is_accepted_of_a_round(switches, limit, overlap, rounds):
    """All updates are computed from one step, so their true staleness when applied is known."""
    workers = Workers(dropping(limit), count=5, overlap=overlap)
    with started(workers) as session:
        record = in_one_run(workers, session, rounds)
        each = min(limit + 1, 5)
        assert record.accepted == sorted(list(range(0, rounds * each, each)) * each)
        check(workers, session.run, record, limit)


@every_switches
def test_instance_that_is_used_several_times_is_atomic_as_well(switches, rounds):
    one = dropping(0)(Descent())
    workers = Workers(lambda _: one, count=4)
    with started(workers) as session:
        record = in_one_run(workers, session, rounds)
        assert record.accepted == list(range(rounds))
        check(workers, session.run, record, limit=0)


def test_gates_of_other_steps_do_not_count(switches):
    """An update in progress on one step is no reason to drop updates on another step."""
    with tf.Graph().as_default() as graph:
        v1.train.get_or_create_global_step()
        go = tf.queue.FIFOQueue(1, [tf.int32], [()])

        def wait(decided):
            with tf.control_dependencies([decided]):
                return go.dequeue()

        trains = []
        for name, inner in (("held", Descent(wait)), ("free", Descent())):
            with v1.variable_scope(name):
                step = v1.get_variable("step", initializer=tf.constant(0, tf.int64))
                weights = v1.get_variable("weights", initializer=tf.constant(0.0))
            optimizer = dropping(0)(inner)
            optimizer.compute_gradients(weights * 1.0)
            train = optimizer.apply_gradients([(tf.constant(1.0), weights)], step)
            trains.append((train, last_decision(graph).outputs[0], optimizer.num_dropped()))
        release, init = go.enqueue(0), v1.global_variables_initializer()
    with many_threaded_session(graph) as session:
        session.run(init)
        held = Background(session.run, trains[0])
        held.wait_until_blocked()
        assert session.run(trains[1]) == (0.0, True, 0)
        session.run(release)
        assert held.result() == (0.0, True, 0)


def test_update_that_takes_long_is_overtaken_only_where_the_limit_allows_it(switches):
    """The limit covers updates accepted before this one; later ones may still overtake it.

    With limit 0 nothing else is accepted while an update is in progress. With limit 1 updates that
    begin while it is in progress are accepted, so that the step may have moved on further than the
    limit when it is applied.
    """
    for limit, expected in ((0, [False] * 5), (1, [True] * 5)):
        with tf.Graph().as_default() as graph:
            step = v1.train.get_or_create_global_step()
            weights = v1.get_variable("weights", initializer=tf.constant(0.0))
            go = tf.queue.FIFOQueue(1, [tf.int32], [()])
            slow, quick = (
                _minimized(dropping(limit)(inner), weights, step)
                for inner in (Descent(lambda decided, go=go: _wait(go, decided)), Descent())
            )
            release, init = go.enqueue(0), v1.global_variables_initializer()
        with many_threaded_session(graph) as session:
            session.run(init)
            held = Background(session.run, slow)
            held.wait_until_blocked()
            assert [bool(session.run(quick).accepted) for _ in range(5)] == expected
            assert session.run(step) == sum(expected)
            session.run(release)
            assert held.result().accepted
            assert session.run(step) == sum(expected) + 1
            assert session.run(quick).accepted


def _wait(queue, decided) -> tf.Tensor:
    with tf.control_dependencies([decided]):
        return queue.dequeue()


def _minimized(optimizer, weights, step) -> Try:
    train = optimizer.minimize(weights * 1.0, step)
    decided = last_decision(tf_ops.get_default_graph())
    return Try(train, decided.inputs[2], *decided.outputs[:2])
