"""Tests of sessions on servers: what they share, and a parameter server with a worker.

Takes of sessions on servers that are cancelled are in test_cancellation.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import SessionCalls
from tests.accumulators.support.outcomes import ADDED, AHEAD, DUPLICATE, STALE
from tests.support.accumulator_support import every_kind, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind


@pytest.fixture(scope="module")
def server():
    return v1.train.Server.create_local_server()


def graph_of(impl, **kwargs):
    """Returns a graph with an accumulator, and a function that runs one of its calls."""
    with tf.Graph().as_default() as graph:
        value = v1.placeholder(tf.float32, [])
        acc = impl.dense(tf.float32, [], **kwargs)
        ops = {
            "apply": acc.apply_grad(value),
            "take2": acc.take_grad(2),
            "count": acc.num_accumulated(),
        }

    def run(session, op, v=0.0):
        return session.run(ops[op], {value: v})

    return graph, run


def test_a_shared_name_joins_sessions_and_outlives_them(impl, server):
    name = unique_name("outlives")
    graph, run = graph_of(impl, shared_name=name)
    with v1.Session(server.target, graph=graph) as first:
        run(first, "apply", 2.0)
        with v1.Session(server.target, graph=graph) as second:
            assert run(second, "count") == 1
        isolated = v1.ConfigProto(isolate_session_state=True)
        with v1.Session(server.target, graph=graph, config=isolated) as alone:
            assert run(alone, "count") == 0
        with tf.Graph().as_default() as boxed, boxed.container("box"):
            boxed_count = impl.dense(tf.float32, [], shared_name=name).num_accumulated()
        with v1.Session(server.target, graph=boxed) as other:
            assert other.run(boxed_count) == 0
    graph, run = graph_of(impl, shared_name=name)
    with v1.Session(server.target, graph=graph) as third:
        assert run(third, "count") == 1
        run(third, "apply", 4.0)
        assert run(third, "take2") == 3.0
        assert run(third, "count") == 0


def test_private_accumulators_of_two_sessions_are_separate(impl, server):
    graph, run = graph_of(impl)
    with v1.Session(server.target, graph=graph) as first:
        with v1.Session(server.target, graph=graph) as second:
            run(first, "apply", 2.0)
            assert (run(first, "count"), run(second, "count")) == (1, 0)


def test_take_of_one_session_is_woken_by_another(impl, server):
    name = unique_name("woken")
    graph, run = graph_of(impl, shared_name=name)
    other_graph, other_run = graph_of(impl, shared_name=name)
    with v1.Session(server.target, graph=graph) as first:
        run(first, "count")
        waiting = Background(run, first, "take2")
        waiting.wait_until_blocked()
        with v1.Session(server.target, graph=other_graph) as second:
            other_run(second, "apply", 2.0)
            assert other_run(second, "count") == 1
            other_run(second, "apply", 6.0)
        assert waiting.result() == 4.0


@pytest.mark.parametrize("container", ["", "box"])
def test_reset_clears_shared_accumulators(impl, container):
    target = v1.train.Server.create_local_server().target
    with tf.Graph().as_default() as graph, graph.container(container):
        acc = impl.dense(tf.float32, [], shared_name="grads")
        apply, count = acc.apply_grad(1.0), acc.num_accumulated()
    session = v1.Session(target, graph=graph)
    session.run(apply)
    v1.Session.reset(target, [container] if container else None)
    with v1.Session(target, graph=graph) as fresh:
        assert fresh.run(count) == 0
        fresh.run(apply)
        assert fresh.run(count) == 1


def test_chief_and_worker_meet_at_the_parameter_server(impl, cluster):
    with tf.Graph().as_default() as graph:
        with v1.device("/job:ps/task:0"):
            acc = impl.dense(tf.float32, [1000], shared_name=unique_name("ps"))
        with v1.device("/job:worker/task:0"):
            value, step = v1.placeholder(tf.float32, []), v1.placeholder(tf.int64, [])
            apply = acc.apply_grad(tf.fill([1000], value) * 1.0, step)
            take, count = acc.take_grad(2), acc.num_accumulated()
            set_step = acc.set_global_step(step)
    with (
        v1.Session(cluster.ps_target, graph=graph) as chief,
        v1.Session(cluster.targets[0], graph=graph) as worker,
    ):
        for session in (chief, worker):
            chief.run(set_step, {step: 0})
            for number in range(3):
                waiting = Background(chief.run, take)
                waiting.wait_until_blocked()
                session.run(apply, {value: 99.0, step: number - 1})
                session.run(apply, {value: 2.0, step: number})
                assert worker.run(count) == 1
                session.run(apply, {value: 4.0, step: number})
                np.testing.assert_array_equal(waiting.result(), np.full([1000], 3.0))
                assert worker.run(count) == 0


def test_contributions_rounds_and_resets_reach_the_server_of_another_task(ours, cluster):
    name = unique_name("remote")
    arguments = {"device": "/job:ps/task:0", "target": cluster.targets[0], "shared_name": name}
    first, second = (SessionCalls(ours, tf.float32, [1], **arguments) for _ in range(2))
    assert first.contribute([2.0], 0) == ADDED
    assert second.contribute([8.0], 0) == DUPLICATE, "a contributor of another session is the same"
    assert first.contribute([8.0], 1, step=1) == AHEAD
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"contributor.*{name}"):
        first.contribute([8.0], -1)
    assert first.contribute([4.0], 1) == ADDED
    assert first.take_round(3, 0)[0] is first.take_round(2, 1)[0] is False
    taken, value = second.take_round(2, 0)
    assert taken and value == [3.0]
    assert first.contribute([8.0], 2) == STALE
    assert first.contribute([8.0], 2, step=1) == ADDED
    assert second.reset(7) == 1
    assert second.contribute([6.0], 0, step=7) == ADDED
    assert first.take_round(1, 7) == (True, [6.0])
    assert first.state() == (0, 8, 1)
    for each in (first, second):
        each.close()
