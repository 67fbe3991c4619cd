"""Tests of a parameter server and workers in processes, which train with gradients of one step."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.accumulator_support import unique_name
from tests.support.drop_stale_atomic_support import (
    Descent,
    Record,
    Workers,
    check,
    check_at_rest,
    dropping,
)
from tests.support.drop_stale_support import SWITCHES, switched
from tests.support.waiting import until

v1 = tf.compat.v1
PS = "/job:ps/task:0"
NUM_WORKERS = 3
pytestmark = pytest.mark.clusters


def worker_device(worker: int) -> str:
    return f"/job:worker/task:{worker}/device:CPU:0"


class Cluster(ForkedCluster):
    """A parameter server, and workers that call the functions that they are sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1, NUM_WORKERS, self._serve)
        self._pipes = [multiprocessing.Pipe() for _ in range(NUM_WORKERS)]
        self.target = f"grpc://{self.spec['ps'][0]}"

    def session(self, graph: tf.Graph) -> v1.Session:
        """Returns a session with the parameter server that does not need any worker."""
        config = v1.ConfigProto(device_filters=[PS])
        return v1.Session(self.target, graph=graph, config=config)

    def send(self, worker: int, *what: Any) -> None:
        """Sends a function and its arguments to a worker, or something to its function."""
        self._pipes[worker][0].send(what)

    def answer(self, worker: int) -> Any:
        pipe = self._pipes[worker][0]
        self.await_that(pipe.poll, f"an answer of worker {worker}")
        return pipe.recv()

    def _serve(self, job: str, index: int, number: int) -> None:
        config = v1.ConfigProto(inter_op_parallelism_threads=8)
        server = v1.train.Server(self.spec, job_name=job, task_index=index, config=config)
        if job == "ps":
            server.join()
        pipe = self._pipes[index][1]
        while True:
            function, job_ = pipe.recv()
            with switched(*SWITCHES[job_.pop("switches")]):
                function(server, index, pipe, **job_)


def make_rounds(
    server: Any, index: int, pipe: Any, limit: int, overlap: bool, rounds: int, name: str
) -> None:
    """Runs tries together with the other workers, and answers with the decisions."""
    workers = Workers(
        dropping(limit),
        NUM_WORKERS,
        overlap=overlap,
        name=name,
        only=[index],
        devices=(PS, worker_device),
    )
    record = Record()
    with v1.Session(server.target, graph=workers.graph) as session:
        if index == 0:
            session.run(workers.init)
        pipe.send("ready")
        pipe.recv()
        for _ in range(rounds):
            record.add(session.run(workers.tries[0]))
        pipe.send(record.rows)


def hold_updates(server: Any, index: int, pipe: Any, limit: int, updates: int) -> None:
    """Has updates accepted, answers for each, and never applies them."""
    forever, one_at_a_time = threading.Event(), threading.Lock()

    def hold(decided: Any) -> Any:
        def answer_and_hold(accepted: Any) -> Any:
            with one_at_a_time:
                pipe.send(bool(accepted))
            forever.wait()
            return accepted

        with v1.device(worker_device(index)):
            held = v1.py_func(answer_and_hold, [decided.outputs[0]], tf.bool, stateful=True)
            return tf.cast(held, tf.int32)

    workers = Workers(
        lambda _: dropping(limit)(Descent(hold)),
        index + 1,
        together=False,
        only=[index],
        devices=(PS, worker_device),
    )
    config = v1.ConfigProto(device_filters=[PS, worker_device(index)])
    session = v1.Session(server.target, graph=workers.graph, config=config)
    for _ in range(updates):
        threading.Thread(target=session.run, args=(workers.tries[0],), daemon=True).start()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.start()
        yield made


def observer() -> Workers:
    """Returns the graph of a worker that uses the parameter server and waits for no other."""
    return Workers(
        dropping(0), NUM_WORKERS, together=False, devices=(PS, lambda worker: PS), only=[0]
    )


@isolated()
@pytest.mark.parametrize(
    "switches, limit, overlap",
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
    cluster, switches, limit, overlap, rounds
):
    job = dict(switches=switches, limit=limit, overlap=overlap, rounds=rounds)
    job |= dict(name=unique_name("cluster"))
    for worker in range(NUM_WORKERS):
        cluster.send(worker, make_rounds, job)
        assert cluster.answer(worker) == "ready"
    for worker in range(NUM_WORKERS):
        cluster.send(worker, "go")
    record = Record(row for worker in range(NUM_WORKERS) for row in cluster.answer(worker))
    assert len(record.rows) == NUM_WORKERS * rounds
    if limit == 0:
        assert len(record.accepted) == rounds, "one of each round"
    with switched(*SWITCHES[switches]):
        workers = observer()
    with cluster.session(workers.graph) as session:
        check(workers, session.run, record, limit)
    v1.Session.reset(cluster.target)


@isolated(alone=True)
@pytest.mark.parametrize("switches", SWITCHES)
def test_updates_of_a_killed_worker_are_given_up(cluster, switches):
    with switched(*SWITCHES[switches]):
        workers = observer()
    with cluster.session(workers.graph) as session:
        session.run(workers.init)
        cluster.send(2, hold_updates, dict(switches=switches, limit=4, updates=5))
        assert all(cluster.answer(2) for _ in range(5))
        assert session.run(workers.reach) == 5
        assert not session.run(workers.tries[0]).accepted
        cluster.kill(("worker", 2))
        until(lambda: session.run(workers.reach) == 0, "updates to be given up")
        assert session.run(workers.tries[0]).accepted
        assert (session.run(workers.num_accepted), session.run(workers.step)) == (1, 1)
        check_at_rest(workers, session.run)
