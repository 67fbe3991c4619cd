"""Tests of other programs that write or share the step, or end, during updates."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.drop_stale_atomic_support import (
    Descent,
    check_at_rest,
    dropping,
    last_decision,
    reach,
)
from tests.support.drop_stale_support import every_switches
from tests.support.many_threads import FAR_AHEAD
from tests.support.waiting import Background, in_threads, until

v1 = tf.compat.v1


class Held:
    """A graph with an update that waits for `let_go` once accepted, and one that does not."""

    def __init__(self, limit: int = 0, container: str = "", device: str = "") -> None:
        with (
            tf.Graph().as_default() as self.graph,
            self.graph.container(container),
            v1.device(device),
        ):
            self.step = v1.train.get_or_create_global_step()
            weights = v1.get_variable("weights", initializer=tf.constant(0.0))
            # A TensorFlow queue would abort its server, if the server is reset while a step waits
            # for it.
            zeros = tf_condacc.ConditionalAccumulator(tf.float32, [], shared_name="zeros")

            def wait(decided):
                with tf.control_dependencies([decided]):
                    return zeros.take_grad(1)

            trains, counts = [], []
            for inner in (Descent(wait), Descent()):
                optimizer = dropping(limit)(inner)
                train = optimizer.minimize(-weights, self.step)
                trains.append((train, last_decision(self.graph).outputs[0]))
                counts.append(optimizer.num_accepted())
            self.held, self.free = trains
            self.num_accepted = tf.add_n(counts)
            self.let_go = zeros.apply_grad(0.0, FAR_AHEAD)
            self.jump_to = v1.placeholder(tf.int64, [])
            self.jump = v1.assign(self.step, self.jump_to)
            self.reach = reach(self.step)
            self.init = v1.global_variables_initializer()

    def hold(self, session: v1.Session) -> Background:
        running = Background(session.run, self.held)
        running.wait_until_blocked()
        return running

    def is_accepted(self, session: v1.Session) -> bool:
        return bool(session.run(self.free)[1])

    def let_go_of(self, running: Background, session: v1.Session) -> None:
        session.run(self.let_go)
        assert running.result()[1]


@every_switches
def test_sessions_of_a_server_share_the_gate_of_a_variable_by_its_name(switches):
    target = v1.train.Server.create_local_server().target
    first, second = Held(), Held()
    with v1.Session(target, graph=first.graph) as one:
        with v1.Session(target, graph=second.graph) as other:
            one.run(first.init)
            running = first.hold(one)
            assert not second.is_accepted(other)
            second.let_go_of(running, other)
            assert second.is_accepted(other)
            assert other.run([second.step, second.num_accepted]) == [2, 2]


@every_switches
@pytest.mark.parametrize("place", ["direct", "server"])
def test_session_may_be_closed_and_deleted_during_an_update(switches, place):
    """On a server, where the step lives on, this gives up the update."""
    target = v1.train.Server.create_local_server().target if place == "server" else ""
    held = Held()
    with v1.Session(target, graph=held.graph) as observer:
        observer.run(held.init)
        for _ in range(3):
            session = v1.Session(target, graph=held.graph)
            if place == "direct":
                session.run(held.init)
            running = held.hold(session)
            assert observer.run(held.reach) == (1 if place == "server" else 0)
            session.close()
            assert isinstance(running.error(), tf.errors.CancelledError)
            del session, running
            gc.collect()
            until(lambda: observer.run(held.reach) == 0, "the update is given up")
        assert held.is_accepted(observer)
        assert observer.run([held.step, held.num_accepted]) == [1, 1]


@pytest.mark.parametrize("by", ["container", "session"])
def test_containers_and_isolated_sessions_have_gates_of_their_own(v1_graph, by):
    target = v1.train.Server.create_local_server().target
    first, second = Held(), Held(container="box" if by == "container" else "")
    config = v1.ConfigProto(isolate_session_state=by == "session")
    with v1.Session(target, graph=first.graph, config=config) as one:
        with v1.Session(target, graph=second.graph, config=config) as other:
            one.run(first.init)
            other.run(second.init)
            running = first.hold(one)
            assert second.is_accepted(other) and not first.is_accepted(one)
            first.let_go_of(running, one)


# A reset frees reference variables although running operations use them, which may crash
# TensorFlow.
@pytest.mark.parametrize("container", ["", "box"])
def test_reset_begins_anew_also_while_an_update_is_under_way(v1_graph, container):
    target = v1.train.Server.create_local_server().target
    held = Held(container=container)
    session = v1.Session(target, graph=held.graph)
    session.run(held.init)
    assert held.is_accepted(session)
    running = held.hold(session)
    v1.Session.reset(target, [container] if container else None)
    assert isinstance(running.error(), tf.errors.OpError)
    with v1.Session(target, graph=held.graph) as fresh:
        fresh.run(held.init)
        assert fresh.run([held.step, held.num_accepted, held.reach]) == [0, 0, 0]
        assert held.is_accepted(fresh)
        check_at_rest(held, fresh.run)


@pytest.mark.clusters
@isolated(alone=True)
def test_updates_of_a_killed_worker_are_given_up(tmp_path):
    server_device, may_train = "/job:ps/task:0", tmp_path / "may_train"

    def be(job: str, task: int, number: int) -> None:
        server = v1.train.Server(cluster.spec, job_name=job, task_index=task)
        if job == "ps":
            server.join()
        until(may_train.exists, "the variables are initialized")
        held = Held(limit=4, device=server_device)
        with v1.Session(server.target, graph=held.graph) as session:
            in_threads(*[lambda: session.run(held.held)] * 5)

    with ForkedCluster(tmp_path, 1, 1, be) as cluster:
        cluster.start()
        held = Held(limit=4, device=server_device)
        alone = v1.ConfigProto(device_filters=[server_device])  # It does not need the worker.
        target = f"grpc://{cluster.spec['ps'][0]}"
        with v1.Session(target, graph=held.graph, config=alone) as session:
            session.run(held.init)
            may_train.touch()
            cluster.await_that(lambda: session.run(held.reach) == 5, "five updates are accepted")
            assert not held.is_accepted(session)
            cluster.kill(("worker", 0))
            until(lambda: session.run(held.reach) == 0, "updates to be given up")
            assert held.is_accepted(session)
            assert session.run([held.num_accepted, held.step]) == [1, 1]
            check_at_rest(held, session.run)
