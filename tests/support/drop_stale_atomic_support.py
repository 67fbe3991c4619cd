"""Workers whose gradients become ready together, and the record of their tries.

Workers wait in queues inside the graph. This works across sessions and processes, and holds no
thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tf_condacc
from tf_condacc._optimizers.drop_stale.gate import StalenessGate

v1 = tf.compat.v1
MAX_ROUNDS = 1000
FAR_BELOW = -(2**40)
DECIDE_OPS = ("Condacc>StalenessGateDecide", "Condacc>StalenessGateDecideRef")


def dropping(limit: int) -> Callable[[Any], Any]:
    """Returns a function that wraps an optimizer in the optimizer under test."""
    return functools.partial(tf_condacc.DropStaleGradientOptimizer, staleness=limit)


class Meeting:
    """A barrier of `count` workers inside a graph, for any number of rounds."""

    def __init__(self, name: str, count: int) -> None:
        def queue(capacity: int, name: str) -> tf.queue.FIFOQueue:
            return tf.queue.FIFOQueue(capacity, [tf.int32], [()], shared_name=name)

        self._count = count
        self._arrived = queue(count, f"{name}_arrived")
        self._go = [queue(1, f"{name}_go_{i}") for i in range(count)]

    def join(self, worker: int, after: Iterable[Any]) -> tf.Tensor:
        """Returns a zero that is computed when all workers have come to this point."""
        with tf.control_dependencies(list(after)):
            ready = [self._arrived.enqueue(0)]
        if worker == 0:
            with tf.control_dependencies(ready):
                everybody = self._arrived.dequeue_many(self._count)
            with tf.control_dependencies([everybody]):
                ready = [go.enqueue(0) for go in self._go]
        with tf.control_dependencies(ready):
            return self._go[worker].dequeue()


def last_decision(graph: tf.Graph) -> tf.Operation:
    """Returns the operation that decides about the update that is being built."""
    return [op for op in graph.get_operations() if op.type in DECIDE_OPS][-1]


class Descent(v1.train.GradientDescentOptimizer):
    """Subtracts gradients and increments the step, each under a lock.

    TensorFlow's own optimizers do not lock reference variables to increment the step, and lose
    increments if updates overlap.

    Args:
        before: Function of the operation that decided. It returns a zero, computed outside of the
            branch, for which the update waits.
    """

    def __init__(self, before: Callable[[tf.Operation], tf.Tensor] | None = None) -> None:
        super().__init__(1.0, use_locking=True)
        self._before = before

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        if self._before is not None:
            with tf.init_scope():
                zero = self._before(last_decision(v1.get_default_graph()))
            grads_and_vars = [(g + tf.cast(zero, g.dtype), v) for g, v in grads_and_vars]
        update = super().apply_gradients(grads_and_vars, name=name)
        with tf.control_dependencies([update]):
            return tf.group(v1.assign_add(global_step, 1, use_locking=True))


class Try(NamedTuple):
    """The tensors of one worker in a round, which are fetched together."""

    train: Any
    local_step: Any
    accepted: Any
    staleness: Any


class Workers:
    """A graph in which workers read the step together and have their gradients together.

    The gradient of local step n is one at weight n, so the weights show how many updates of each
    local step have been applied.

    Args:
        make_optimizer: Function that is called with the optimizer to wrap, once for each worker.
        count: Number of workers.
        overlap: Whether no update is applied before all have been decided on.
        together: Whether workers wait for each other at all.
        name: Name of the queues, the same in all graphs whose workers meet.
        only: The workers that are in this graph. By default all.
        devices: Device of the variables, and function from a worker's number to its device.
        max_rounds: The highest number of rounds.
    """

    def __init__(
        self,
        make_optimizer: Callable[[Any], Any],
        count: int,
        overlap: bool = False,
        together: bool = True,
        name: str = "workers",
        only: Iterable[int] | None = None,
        devices: tuple[str, Callable[[int], str]] = ("", lambda worker: ""),
        max_rounds: int = MAX_ROUNDS,
    ) -> None:
        self._size, self._devices = count * max_rounds + 8, devices
        self._make_optimizer = make_optimizer
        with tf.Graph().as_default() as self.graph:
            with v1.device(devices[0]):
                self.step = v1.train.get_or_create_global_step()
                zeros = v1.zeros_initializer()
                self.weights = v1.get_variable("weights", [self._size], initializer=zeros)
                self._ready = Meeting(f"{name}_ready", count) if together else None
                self._decided = Meeting(f"{name}_decided", count) if overlap else None
            self._optimizers: list[Any] = []
            self.tries = [self._build(i) for i in (range(count) if only is None else only)]
            optimizers = list(dict.fromkeys(self._optimizers))
            self.num_accepted = tf.add_n([optimizer.num_accepted() for optimizer in optimizers])
            self.num_dropped = tf.add_n([optimizer.num_dropped() for optimizer in optimizers])
            self.stale_counters = tf.add_n([optimizer.variables()[-1] for optimizer in optimizers])
            self.jump_to = v1.placeholder(tf.int64, [])
            self.jump = v1.assign(self.step, self.jump_to, use_locking=True)
            self.reach = reach(self.step)
            self.init = v1.global_variables_initializer()

    def _build(self, worker: int) -> Try:
        optimizer = self._make_optimizer(Descent(self._wait_for_decisions(worker)))
        self._optimizers.append(optimizer)
        with tf.name_scope(f"worker_{worker}"), v1.device(self._devices[1](worker)):
            pairs = optimizer.compute_gradients(tf.reduce_sum(self.weights))
            local_step = self.graph.get_tensor_by_name(f"worker_{worker}/local_step:0")
            row = local_step
            if self._ready is not None:
                with v1.device(self._devices[0]):
                    together = self._ready.join(worker, [local_step, pairs[0][0]])
                row += tf.cast(together, tf.int64)
            gradient = tf.one_hot(row, self._size)
            train = optimizer.apply_gradients([(gradient, self.weights)], self.step)
        return Try(train, local_step, *last_decision(self.graph).outputs[:2])

    def _wait_for_decisions(self, worker: int) -> Callable[[tf.Operation], tf.Tensor] | None:
        if self._decided is None:
            return None

        def before(decided: tf.Operation) -> tf.Tensor:
            with v1.device(self._devices[0]):
                return self._decided.join(worker, [decided])

        return before


def reach(step: Any) -> tf.Tensor:
    """Returns the step after all updates in progress, as the gate expects it."""
    with tf.name_scope("reach"):
        return (
            StalenessGate(step, "reach").decide(tf.constant(0, tf.int64), FAR_BELOW * 2).staleness
        )


def check_at_rest(workers: Workers, run: Callable[..., Any]) -> None:
    """Asserts that no reservation is left: the gate expects no step beyond the current one.

    The gate does not report the number of reservations. But if the step turns out to be lower than
    possible, the gate expects all of them still to come.
    """
    assert run(workers.reach) == run(workers.step)
    run(workers.jump, {workers.jump_to: FAR_BELOW})
    assert run(workers.reach) == FAR_BELOW


class Record:
    """The results of tries, as rows of local step, accepted and staleness."""

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self.rows = [(int(n), bool(accepted), int(late)) for n, accepted, late in rows]

    def add(self, *results: Try) -> None:
        rows = [(r.local_step, r.accepted, r.staleness) for r in results]
        self.rows += [(int(n), bool(accepted), int(late)) for n, accepted, late in rows]

    @property
    def accepted(self) -> list[int]:
        """The local steps of the accepted updates."""
        return [n for n, accepted, _ in self.rows if accepted]

    @property
    def num_dropped(self) -> int:
        return len(self.rows) - len(self.accepted)

    @property
    def own_steps(self) -> list[int]:
        """The step that each accepted update reserved, ascending."""
        return sorted(n + late for n, accepted, late in self.rows if accepted)


def check(workers: Workers, run: Callable[..., Any], record: Record, limit: int) -> None:
    """Checks the rules that every record obeys, and the variables at the end."""
    accepted = record.accepted
    assert record.own_steps == list(range(len(accepted))), "each update takes a step of its own"
    assert all((late <= limit) == was_accepted for _, was_accepted, late in record.rows)
    assert run(workers.step) == len(accepted)
    weights = run(workers.weights)
    applied = np.bincount(accepted, minlength=len(weights))
    np.testing.assert_array_equal(-weights, applied)
    assert applied.max() <= limit + 1
    if limit == 0:
        assert len(set(accepted)) == len(accepted), "no step is the origin of two updates"
    assert run(workers.num_accepted) == len(accepted)
    assert run(workers.num_dropped) == run(workers.stale_counters) == record.num_dropped
    check_at_rest(workers, run)
