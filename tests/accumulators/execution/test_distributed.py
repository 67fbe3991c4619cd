"""Tests of sessions on in-process servers: sharing, lifetime, and a ps/worker cluster."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import Announcement, every_kind, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind


@pytest.fixture(scope="module")
def server():
    return v1.train.Server.create_local_server()


def graph_of(impl, **kwargs):
    """Returns a graph with an accumulator's ops in a dict."""
    with tf.Graph().as_default() as graph:
        value, step = v1.placeholder(tf.float32, []), v1.placeholder(tf.int64, [])
        acc = impl.dense(tf.float32, [], **kwargs)
        announcement = Announcement()
        with tf.control_dependencies([announcement.op]):
            announced_take = acc.take_grad(2, name="announced_take")
        ops = {
            "announced_take": announced_take,
            "apply": acc.apply_grad(value, step),
            "take": acc.take_grad(1),
            "take2": acc.take_grad(2),
            "count": acc.num_accumulated(),
            "set": acc.set_global_step(step),
        }

    def run(session, op, v=0.0, s=0):
        return session.run(ops[op], {value: v, step: s})

    run.announcement = announcement
    return graph, run


def test_shared_name_joins_sessions_and_outlives_them(impl, server):
    name = unique_name("outlives")
    graph, run = graph_of(impl, shared_name=name)
    with v1.Session(server.target, graph=graph) as first:
        run(first, "apply", 2.0)
        with v1.Session(server.target, graph=graph) as second:
            assert run(second, "count") == 1
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


def test_closing_a_session_cancels_its_take_and_leaves_the_accumulator(impl, server):
    graph, run = graph_of(impl, shared_name=unique_name("close"))
    first = v1.Session(server.target, graph=graph)
    run(first, "apply", 2.0)
    waiting = Background(run, first, "announced_take")
    run.announcement.wait()
    first.close()
    assert isinstance(waiting.error(), tf.errors.CancelledError)
    with v1.Session(server.target, graph=graph) as second:
        assert run(second, "count") == 1
        assert run(second, "take") == 2.0


@pytest.mark.long
def test_run_timeout_ends_a_take_on_a_server(impl, server):
    graph, _ = graph_of(impl, shared_name=unique_name("timeout"))
    take = graph.get_tensor_by_name("announced_take:0")
    with v1.Session(server.target, graph=graph) as session:
        for _ in range(3):
            # TensorFlow hangs if a step on a server times out before it begins. So the time-out is
            # long, and on a very busy machine it may be too short.
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(take, options=v1.RunOptions(timeout_in_ms=1000))


def test_containers_are_separate_on_a_server(impl, server):
    name = unique_name("container")
    graph, run = graph_of(impl, shared_name=name)
    with tf.Graph().as_default() as boxed, boxed.container("box"):
        boxed_count = impl.dense(tf.float32, [], shared_name=name).num_accumulated()
    with v1.Session(server.target, graph=graph) as session:
        run(session, "apply", 1.0)
        with v1.Session(server.target, graph=boxed) as other:
            assert other.run(boxed_count) == 0


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


def test_isolated_sessions_do_not_share(impl, server):
    name = unique_name("isolated")
    graph, run = graph_of(impl, shared_name=name)
    config = v1.ConfigProto(isolate_session_state=True)
    with v1.Session(server.target, graph=graph) as session:
        run(session, "apply", 1.0)
        with v1.Session(server.target, graph=graph, config=config) as isolated:
            assert run(isolated, "count") == 0


def on_the_ps(impl, name):
    """Builds an accumulator on the ps whose other operations are pinned to the worker."""
    with tf.Graph().as_default() as graph:
        with v1.device("/job:ps/task:0"):
            acc = impl.dense(tf.float32, [1000], shared_name=name)
        with v1.device("/job:worker/task:0"):
            value, step = v1.placeholder(tf.float32, []), v1.placeholder(tf.int64, [])
            apply = acc.apply_grad(tf.fill([1000], value) * 1.0, step)
            take, count = acc.take_grad(2), acc.num_accumulated()
            set_step = acc.set_global_step(step)
    return graph, value, step, apply, take, count, set_step


@pytest.mark.parametrize("job", ["worker", "ps"])
def test_accumulator_on_the_ps_with_ops_on_the_worker(impl, cluster, job):
    graph, value, step, apply, take, count, set_step = on_the_ps(impl, unique_name("ps"))
    target = cluster.ps_target if job == "ps" else cluster.targets[0]
    with v1.Session(target, graph=graph) as session:
        for number in range(3):
            session.run(apply, {value: 2.0, step: number})
            session.run(apply, {value: 4.0, step: number})
            session.run(apply, {value: 99.0, step: number - 1})
            assert session.run(count) == 2
            np.testing.assert_array_equal(session.run(take), np.full([1000], 3.0))
        session.run(set_step, {step: 10})
        session.run(apply, {value: 1.0, step: 9})
        assert session.run(count) == 0


def test_chief_and_worker_sessions_meet_at_the_ps(impl, cluster):
    name = unique_name("meet")
    graph, value, step, apply, take, count, _ = on_the_ps(impl, name)
    with v1.Session(cluster.ps_target, graph=graph) as chief:
        chief.run(count)
        waiting = Background(chief.run, take)
        waiting.wait_until_blocked()
        with v1.Session(cluster.targets[0], graph=graph) as worker:
            worker.run(apply, {value: 2.0, step: 0})
            worker.run(apply, {value: 4.0, step: 0})
            np.testing.assert_array_equal(waiting.result(), np.full([1000], 3.0))
            assert worker.run(count) == 0


def test_clash_between_sessions_is_refused_naming_both(ours, server):
    name = unique_name("clash")
    graph, run = graph_of(ours, shared_name=name)
    other_graph, other_run = graph_of(ours, shared_name=name, reduction_type="SUM")
    with v1.Session(server.target, graph=graph) as first:
        run(first, "apply", 1.0)
        with v1.Session(server.target, graph=other_graph) as second:
            with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)MEAN.*SUM|SUM.*MEAN"):
                other_run(second, "count")
        assert run(first, "take") == 1.0
