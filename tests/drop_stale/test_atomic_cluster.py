"""Tests of a parameter server and workers in processes, which train with gradients of one step."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support.accumulator_support import unique_name, wait_until
from tests.support.drop_stale_atomic_process import PS, Member
from tests.support.drop_stale_atomic_support import Record, Workers, check, check_at_rest, dropping
from tests.support.drop_stale_support import WORLDS, world_of
from tests.support.ports import free_ports

v1 = tf.compat.v1
NUM_WORKERS = 3
pytestmark = pytest.mark.timeout(300)


class Cluster:
    def __init__(self) -> None:
        ports = free_ports(1 + NUM_WORKERS)
        self._ports = {"ps": ports[:1], "worker": ports[1:]}
        self.target = f"grpc://localhost:{ports[0]}"
        self._ps = Member("ps", 0, self._ports)
        self.workers = [Member("worker", i, self._ports) for i in range(NUM_WORKERS)]
        for member in (self._ps, *self.workers):
            assert member.answer() == "started"

    def session(self, graph: tf.Graph) -> v1.Session:
        """Returns a session with the parameter server that does not need any worker."""
        config = v1.ConfigProto(device_filters=[PS])
        return v1.Session(self.target, graph=graph, config=config)

    def restart(self, worker: int) -> None:
        self.workers[worker] = Member("worker", worker, self._ports)
        assert self.workers[worker].answer() == "started"

    def close(self) -> None:
        for member in (*self.workers, self._ps):
            member.kill()


@pytest.fixture(scope="module")
def cluster():
    made = Cluster()
    yield made
    made.close()


def observer() -> Workers:
    """Returns the graph of a worker that uses the parameter server and waits for no other."""
    return Workers(
        dropping(0), NUM_WORKERS, together=False, devices=(PS, lambda worker: PS), only=[0]
    )


@pytest.mark.parametrize(
    "world_name, limit, overlap",
    [
        ("ref", 0, True),
        ("ref", 0, False),
        ("resource", 0, True),
        ("resource", 0, False),
        ("resource_v2", 0, True),
        ("resource", 1, True),
    ],
)
def test_workers_never_have_more_accepted_of_one_step_than_the_limit_allows(
    cluster, world_name, limit, overlap, rounds
):
    job = dict(do="rounds", world=world_name, limit=limit, overlap=overlap, rounds=rounds)
    job |= dict(count=NUM_WORKERS, name=unique_name("cluster"))
    for worker in cluster.workers:
        worker.ask(**job)
        assert worker.answer() == "ready"
    for worker in cluster.workers:
        worker.ask()
    record = Record(row for worker in cluster.workers for row in worker.answer())
    assert len(record.rows) == NUM_WORKERS * rounds
    if limit == 0:
        assert len(record.accepted) == rounds, "one of each round"
    with world_of(*WORLDS[world_name]):
        workers = observer()
    with cluster.session(workers.graph) as session:
        check(workers, session.run, record, limit)
    v1.Session.reset(cluster.target)


@pytest.mark.parametrize("world_name", list(WORLDS))
def test_updates_of_a_killed_worker_are_given_up(cluster, world_name):
    with world_of(*WORLDS[world_name]):
        workers = observer()
    with cluster.session(workers.graph) as session:
        session.run(workers.init)
        cluster.workers[2].ask(do="hold", world=world_name, limit=4, updates=5)
        assert all(cluster.workers[2].answer() for _ in range(5))
        assert session.run(workers.reach) == 5
        assert not session.run(workers.tries[0]).accepted
        cluster.workers[2].kill()
        wait_until(lambda: session.run(workers.reach) == 0, "updates to be given up")
        assert session.run(workers.tries[0]).accepted
        assert (session.run(workers.num_accepted), session.run(workers.step)) == (1, 1)
        check_at_rest(workers, session.run)
    cluster.restart(2)
    v1.Session.reset(cluster.target)
