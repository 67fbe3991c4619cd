"""Measures steps per second of synchronous training, with a process for each server and worker.

The gradients take little computation, so that mostly the messages between processes count. Several
optimizers can share the processes, in which each has a graph, sessions and a container of its own.
All but one of them stand still.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import tensorflow as tf

from condacc_bench.implementations import Implementation
from condacc_bench.scales import ClusterModel
from tests.support.ports import free_cluster

v1 = tf.compat.v1

# The variables hardly change at this rate. They must not become subnormal, which would be slow.
_LEARNING_RATE = 1e-9

Spec = dict[str, list[str]]
Optimizers = dict[str, type]


class ReplicaCluster:
    """A cluster that trains a model with one of its optimizers in each round.

    Worker 0, the chief, trains when it is told to. The others go on forever: they wait for its
    gradients when it stands still.
    """

    def __init__(self, implementations: Sequence[Implementation], model: ClusterModel) -> None:
        self._model = model
        self._spec = free_cluster(model.num_ps, model.num_workers)
        self._optimizers = {each.name: each.sync_replicas for each in implementations}
        self._processes: list[SpawnProcess] = []
        # Processes that are forked after TensorFlow was imported may draw the same random numbers
        # for the ids of their requests, and a server refuses the second request with an id.
        self._context = multiprocessing.get_context("spawn")
        try:
            for task in range(model.num_ps):
                self._start(_serve, task, None)
            # Workers poll, once in 30 s, for variables that are not initialized yet.
            self._chief, chief = self._context.Pipe()
            self._start(_train, 0, chief)
            self._chief.recv()
            for task in range(1, model.num_workers):
                self._start(_train, task, None)
            for name in self._optimizers:  # Warms up.
                self.train(name)
        except BaseException:
            self.close()
            raise

    def _start(self, target: Callable[..., None], task: int, connection: Connection | None) -> None:
        arguments = (self._spec, task, self._model, self._optimizers, connection)
        process = self._context.Process(target=target, args=arguments, daemon=True)
        process.start()
        self._processes.append(process)
        if connection is not None:
            connection.close()

    def case(self, implementation: Implementation) -> ReplicaCase:
        """Returns the case of an implementation. The first case that is closed ends the cluster."""
        return ReplicaCase(self, implementation.name)

    def train(self, name: str) -> float:
        """Trains the steps of a round and returns how many there were in a second."""
        self._chief.send(name)
        return self._chief.recv()

    def close(self) -> None:
        for process in reversed(self._processes):  # Workers end first, and see no lost server.
            process.kill()
            process.join()


@dataclass(frozen=True)
class ReplicaCase:
    """Training with one of the optimizers of a cluster."""

    cluster: ReplicaCluster
    name: str

    def measure(self) -> dict[str, float]:
        return {"steps/s": self.cluster.train(self.name)}

    def close(self) -> None:
        self.cluster.close()


def _end_with_parent() -> None:
    """Makes this process end when the measuring process has ended for any reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _server(spec: Spec, job: str, task: int) -> tuple[v1.train.Server, v1.ConfigProto]:
    """Starts the server of this process. Returns it and the options of its sessions."""
    _end_with_parent()
    v1.logging.set_verbosity(v1.logging.ERROR)
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    if job == "worker":
        config.device_filters.extend(["/job:ps", f"/job:worker/task:{task}"])
    return v1.train.Server(spec, job_name=job, task_index=task, config=config), config


def _serve(
    spec: Spec, task: int, model: ClusterModel, optimizers: Optimizers, connection: None
) -> None:
    """Runs a parameter server."""
    _server(spec, "ps", task)[0].join()


def _train(
    spec: Spec,
    task: int,
    model: ClusterModel,
    optimizers: Optimizers,
    connection: Connection | None,
) -> None:
    """Runs a worker. The chief has a connection, over which it gets the name of the optimizer."""
    server, config = _server(spec, "worker", task)
    replicas = {}
    for name, optimizer in optimizers.items():
        with tf.Graph().as_default() as graph, graph.container(f"optimizer{len(replicas)}"):
            replicas[name] = _Replica(server, config, spec, task, model, optimizer)
    if connection is None:
        for replica in replicas.values():
            threading.Thread(target=replica.train_for_ever).start()
        return
    connection.send(None)  # The variables are initialized.
    while True:
        connection.send(replicas[connection.recv()].steps_per_second(model.steps))


class _Replica:
    """The training of a worker with one optimizer, in the current graph."""

    def __init__(
        self,
        server: v1.train.Server,
        config: v1.ConfigProto,
        spec: Spec,
        task: int,
        model: ClusterModel,
        optimizer: type,
    ) -> None:
        worker = f"/job:worker/task:{task}"
        with v1.device(v1.train.replica_device_setter(cluster=spec, worker_device=worker)):
            self._step = v1.train.get_or_create_global_step()
            variables = [
                v1.get_variable(f"v{i}", [model.elements], use_resource=True)
                for i in range(model.variables)
            ]
            loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
            descent = v1.train.GradientDescentOptimizer(_LEARNING_RATE)
            synchronous = optimizer(descent, model.num_workers, model.num_workers)
            self._train = synchronous.minimize(loss, global_step=self._step)
            self._session = v1.train.MonitoredTrainingSession(
                server.target,
                is_chief=task == 0,
                hooks=[synchronous.make_session_run_hook(task == 0)],
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                log_step_count_steps=None,
                config=config,
            )

    def train_for_ever(self) -> None:
        while True:  # Until this process is killed.
            self._session.run(self._train)

    def steps_per_second(self, num_steps: int) -> float:
        """Trains until the global step has grown by at least `num_steps`."""
        first = reached = self._session.run(self._step)
        start = time.perf_counter()
        while reached < first + num_steps:
            reached = self._session.run([self._train, self._step])[1]
        return (reached - first) / (time.perf_counter() - start)
