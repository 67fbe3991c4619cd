"""Tests of gradients that become ready together: the limit holds between all accepted ones."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tests.support.accumulator_support import Background, unique_name
from tests.support.drop_stale_atomic_support import (
    Descent,
    Record,
    Try,
    Workers,
    check,
    dropping,
    last_decision,
)
from tests.support.many_threads import in_threads, many_threaded_session

v1 = tf.compat.v1
overlapping = pytest.mark.parametrize("overlap", [True, False], ids=["overlapping", "as_it_comes"])


class ChecksThenApplies(v1.train.Optimizer):
    """The rule without a gate: reads the step, and then applies the update if it is not late."""

    def __init__(self, opt, limit):
        super().__init__(False, "ChecksThenApplies")
        self._opt, self._limit = opt, limit

    def compute_gradients(self, loss, *args, **kwargs):
        self._local_step = tf.add(v1.train.get_global_step(), 0, name="local_step")
        with tf.control_dependencies([self._local_step]):
            return self._opt.compute_gradients(tf.identity(loss), *args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        with tf.control_dependencies([gradient for gradient, _ in grads_and_vars]):
            staleness = tf.add(global_step, 0) - self._local_step
            accepted, _ = tf.identity_n([staleness <= self._limit, staleness])

        def accept():
            with tf.control_dependencies([self._opt.apply_gradients(grads_and_vars, global_step)]):
                return tf.constant(0.0)

        return tf.cond(accepted, accept, lambda: tf.constant(1.0))

    def variables(self):
        return [tf.constant(0.0)]

    def num_accepted(self):
        return tf.constant(0)

    num_dropped = num_accepted


def in_one_run(workers: Workers, session: v1.Session, rounds: int) -> Record:
    record = Record()
    for _ in range(rounds):
        record.add(*session.run(workers.tries))
    return record


def in_threads_of(runs: list, rounds: int) -> Record:
    """Runs each call in a thread of its own; each call returns the result of one try."""

    def work(run):
        return [run() for _ in range(rounds)]

    record = Record()
    for results in in_threads(*(lambda run=run: work(run) for run in runs)):
        record.add(*results)
    return record


def started(workers: Workers) -> v1.Session:
    session = many_threaded_session(workers.graph)
    session.run(workers.init)
    return session


def test_rule_without_a_gate_accepts_several_computed_from_one_step(switches):
    """Without a gate the rule is broken, so the tests below would notice a missing gate."""
    workers = Workers(lambda opt: ChecksThenApplies(opt, 0), count=4, overlap=True, max_rounds=20)
    with started(workers) as session:
        record = in_one_run(workers, session, 20)
        assert record.accepted == sorted([0, 4, 8, 12] * 4 + list(range(16, 80, 4)) * 4)
        with pytest.raises(AssertionError):
            check(workers, session.run, record, limit=0)


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


@overlapping
def test_threads_of_one_session_never_have_two_accepted_of_one_step(switches, overlap, rounds):
    workers = Workers(dropping(0), count=4, overlap=overlap)
    with started(workers) as session:
        record = in_threads_of([lambda t=t: session.run(t) for t in workers.tries], rounds)
        assert len(record.accepted) == rounds, "one of each round"
        check(workers, session.run, record, limit=0)


@overlapping
def test_sessions_of_a_server_never_have_two_accepted_of_one_step(switches, overlap, rounds):
    """Each session has a graph of its own, in which the variables have the same names."""
    target = v1.train.Server.create_local_server().target
    name = unique_name("sessions")
    graphs = [Workers(dropping(0), 3, overlap, name=name, only=[i]) for i in range(3)]
    sessions = [v1.Session(target, graph=workers.graph) for workers in graphs]
    sessions[0].run(graphs[0].init)
    pairs = zip(sessions, graphs, strict=True)
    record = in_threads_of([lambda s=s, w=w: s.run(w.tries[0]) for s, w in pairs], rounds)
    assert len(record.accepted) == rounds
    check(graphs[1], sessions[1].run, record, limit=0)
    for session in sessions:
        session.close()


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_workers_that_do_not_wait_for_each_other_take_steps_of_their_own(switches, limit, rounds):
    workers = Workers(dropping(limit), count=4, together=False)
    with started(workers) as session:
        record = in_threads_of([lambda t=t: session.run(t) for t in workers.tries], rounds)
        assert record.accepted
        check(workers, session.run, record, limit)


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
