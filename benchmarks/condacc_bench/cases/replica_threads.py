"""Measures a step of synchronous training, with workers that are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from condacc_bench.implementations import Implementation
from condacc_bench.rounds import seconds_for
from condacc_bench.scales import SyncModel

v1 = tf.compat.v1

PLACES = ("session", "server")
_NUM_WORKERS = 2


class ReplicaThreads:
    """Two workers and the chief's queue runner, in one session or with a session each of a server.

    A step is a round: the gradients of both workers, and their update.
    """

    def __init__(
        self, implementation: Implementation, model: SyncModel, place: str, num_steps: int
    ) -> None:
        self._num_steps = num_steps
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            self._step = v1.train.get_or_create_global_step()
            optimizer = implementation.sync_replicas(
                v1.train.GradientDescentOptimizer(1e-3), _NUM_WORKERS, _NUM_WORKERS
            )
            self._train = optimizer.minimize(_loss(model), global_step=self._step)
            optimizer.ready_for_local_init_op.mark_used()
            initializers = [v1.global_variables_initializer(), v1.local_variables_initializer()]
            # No tokens at the start, so that both workers begin with the same round.
            begin = [optimizer.chief_init_op, optimizer.get_init_tokens_op(0)]
            [self._update] = optimizer.get_chief_queue_runner().enqueue_ops
        self._server, self._sessions = _sessions(graph, place)
        for operation in [*initializers, *begin]:
            self._sessions[0].run(operation)
        self._check_result()

    def _check_result(self) -> None:
        before = self._sessions[0].run(self._step)
        self._run(3)
        steps = self._sessions[0].run(self._step) - before
        if steps != 3:
            raise AssertionError(f"expected 3 steps, got {steps}")

    def measure(self) -> dict[str, float]:
        return {"step": seconds_for(lambda: self._run(self._num_steps)) / self._num_steps}

    def _run(self, num_steps: int) -> None:
        # Without the barrier, a worker may take the token of the other one, and both wait forever.
        barrier = threading.Barrier(_NUM_WORKERS)
        chief, *workers = self._sessions

        def train(session: Any) -> None:
            for _ in range(num_steps):
                session.run(self._train)
                barrier.wait()

        def update() -> None:
            for _ in range(num_steps):
                chief.run(self._update)

        work: list[Callable[[], None]] = [lambda s=session: train(s) for session in workers]
        threads = [threading.Thread(target=each) for each in [*work, update]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        for session in {id(session): session for session in self._sessions}.values():
            session.close()


def _loss(model: SyncModel) -> tf.Tensor:
    """Returns the loss of a network of square layers."""
    hidden = model.hidden
    if model.embedding:
        table = v1.get_variable("table", [model.embedding, hidden], use_resource=True)
        ids = tf.random.uniform([model.batch], 0, model.embedding, tf.int64)
        outputs = tf.gather(table, ids)
    else:
        outputs = tf.random.normal([model.batch, hidden])
    for i in range(model.layers):
        weights = v1.get_variable(f"w{i}", [hidden, hidden], use_resource=True)
        outputs = tf.nn.relu(tf.matmul(outputs, weights))
    return tf.reduce_mean(tf.square(outputs))


def _sessions(graph: tf.Graph, place: str) -> tuple[Any, list[Any]]:
    """Returns a server, if there is one, and the sessions of the chief and of the workers."""
    if place == "session":
        return None, [v1.Session(graph=graph)] * (1 + _NUM_WORKERS)
    server = tf.distribute.Server.create_local_server()
    return server, [v1.Session(server.target, graph=graph) for _ in range(1 + _NUM_WORKERS)]
