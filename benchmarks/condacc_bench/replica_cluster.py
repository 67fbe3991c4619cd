"""Measures steps per second of synchronous training, with a process for each server and worker.

The model is tiny, so that only the messages between processes count. Both optimizers have a cluster
of their own, which stands still while the other one trains.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

import tensorflow as tf

from condacc_bench.implementations import Implementation
from tests.support.ports import free_cluster

v1 = tf.compat.v1

_WARM_UP_STEPS = 60
_VARIABLES = ("a", "b", "c")
_ELEMENTS = 4

Spec = dict[str, list[str]]


class ReplicaCluster:
    """A cluster that trains a number of steps in each round.

    Worker 0, the chief, trains when it is told to. The others go on for ever: they wait for its
    gradients when it stands still.
    """

    def __init__(
        self, implementation: Implementation, num_ps: int, num_workers: int, num_steps: int
    ) -> None:
        self._num_steps = num_steps
        self._spec = free_cluster(num_ps, num_workers)
        self._optimizer = implementation.sync_replicas
        self._processes: list[ForkServerProcess] = []
        self._context = _context()
        try:
            for task in range(num_ps):
                self._start(_serve, task, None)
            # Workers poll, once in 30 s, for variables that are not initialized yet.
            self._chief, chief = self._context.Pipe()
            self._start(_train, 0, chief)
            self._chief.recv()
            for task in range(1, num_workers):
                self._start(_train, task, None)
            self._train(_WARM_UP_STEPS if num_steps > _WARM_UP_STEPS else 1)
        except BaseException:
            self.close()
            raise

    def _start(self, target: Callable[..., None], task: int, connection: Connection | None) -> None:
        arguments = (self._spec, task, self._optimizer, connection)
        process = self._context.Process(target=target, args=arguments, daemon=True)
        process.start()
        self._processes.append(process)
        if connection is not None:
            connection.close()

    def _train(self, num_steps: int) -> float:
        """Trains a number of steps and returns how many there were in a second."""
        self._chief.send(num_steps)
        return self._chief.recv()

    def measure(self) -> dict[str, float]:
        return {"steps/s": self._train(self._num_steps)}

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def _context() -> ForkServerContext:
    """Returns a context whose processes are forked from one that has only imported TensorFlow."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow"])
    return context


def _end_with_parent() -> None:
    """Makes this process end when the one that measures has ended, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _server(spec: Spec, job: str, task: int) -> tuple[v1.train.Server, v1.ConfigProto]:
    """Starts the server of this process; returns it and the options of its sessions."""
    _end_with_parent()
    v1.logging.set_verbosity(v1.logging.ERROR)
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    if job == "worker":
        config.device_filters.extend(["/job:ps", f"/job:worker/task:{task}"])
    return v1.train.Server(spec, job_name=job, task_index=task, config=config), config


def _serve(spec: Spec, task: int, optimizer: type, connection: None) -> None:
    """Runs a parameter server."""
    _server(spec, "ps", task)[0].join()


def _train(spec: Spec, task: int, optimizer: type, connection: Connection | None) -> None:
    """Runs a worker. The chief has a connection, by which it is told how many steps to train."""
    server, config = _server(spec, "worker", task)
    worker = f"/job:worker/task:{task}"
    setter = v1.train.replica_device_setter(cluster=spec, worker_device=worker)
    num_workers = len(spec["worker"])
    with tf.Graph().as_default(), v1.device(setter):
        step = v1.train.get_or_create_global_step()
        variables = [v1.get_variable(name, [_ELEMENTS], use_resource=True) for name in _VARIABLES]
        loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
        synchronous = optimizer(v1.train.GradientDescentOptimizer(0.01), num_workers, num_workers)
        train = synchronous.minimize(loss, global_step=step)
        with v1.train.MonitoredTrainingSession(
            server.target,
            is_chief=connection is not None,
            hooks=[synchronous.make_session_run_hook(connection is not None)],
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            log_step_count_steps=None,
            config=config,
        ) as session:
            if connection is not None:
                _train_when_told(session, train, step, connection)
            while True:  # Until this process is killed.
                session.run(train)


def _train_when_told(session: Any, train: Any, step: Any, connection: Connection) -> None:
    connection.send(None)  # The variables are initialized.
    while True:
        num_steps = connection.recv()
        first = reached = session.run(step)
        start = time.perf_counter()
        while reached < first + num_steps:
            reached = session.run([train, step])[1]
        connection.send((reached - first) / (time.perf_counter() - start))
