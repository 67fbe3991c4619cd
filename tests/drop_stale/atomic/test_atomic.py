"""Tests of gradients that become ready together: the limit holds between all accepted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_atomic_support import (
    Descent,
    check_at_rest,
    dropping,
    last_decision,
    reach,
)
from tests.support.drop_stale_support import every_switches
from tests.support.many_threads import many_threaded_session

v1 = tf.compat.v1
NUM_WORKERS = 5
MAX_ROUNDS = 1000


class Meeting:
    """A barrier of all workers inside a graph, for any number of rounds. It holds no thread."""

    def __init__(self) -> None:
        self._arrived = tf.queue.FIFOQueue(NUM_WORKERS, [tf.int32], [()])
        self._go = [tf.queue.FIFOQueue(1, [tf.int32], [()]) for _ in range(NUM_WORKERS)]

    def join(self, worker: int, after: Iterable[Any]) -> tf.Tensor:
        """Returns a zero that is computed when all workers have come to this point."""
        with tf.control_dependencies(list(after)):
            ready = [self._arrived.enqueue(0)]
        if worker == 0:
            with tf.control_dependencies(ready):
                everybody = self._arrived.dequeue_many(NUM_WORKERS)
            with tf.control_dependencies([everybody]):
                ready = [go.enqueue(0) for go in self._go]
        with tf.control_dependencies(ready):
            return self._go[worker].dequeue()


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
        overlap: Whether no update is applied before all have been decided on.
    """

    def __init__(self, make_optimizer: Callable[[Any], Any], overlap: bool = False) -> None:
        self._size = NUM_WORKERS * MAX_ROUNDS + 8
        self._make_optimizer = make_optimizer
        with tf.Graph().as_default() as self.graph:
            self.step = v1.train.get_or_create_global_step()
            zeros = v1.zeros_initializer()
            self.weights = v1.get_variable("weights", [self._size], initializer=zeros)
            self._ready = Meeting()
            self._decided = Meeting() if overlap else None
            optimizers: dict[Any, None] = {}
            self.tries = [self._build(worker, optimizers) for worker in range(NUM_WORKERS)]
            self.num_accepted = tf.add_n([optimizer.num_accepted() for optimizer in optimizers])
            self.num_dropped = tf.add_n([optimizer.num_dropped() for optimizer in optimizers])
            self.stale_counters = tf.add_n([optimizer.variables()[-1] for optimizer in optimizers])
            self.jump_to = v1.placeholder(tf.int64, [])
            self.jump = v1.assign(self.step, self.jump_to, use_locking=True)
            self.reach = reach(self.step)
            self.init = v1.global_variables_initializer()

    def _build(self, worker: int, optimizers: dict[Any, None]) -> Try:
        decided = self._decided
        before = decided and (lambda decision: decided.join(worker, [decision]))
        optimizer = self._make_optimizer(Descent(before))
        optimizers[optimizer] = None
        with tf.name_scope(f"worker_{worker}"):
            pairs = optimizer.compute_gradients(tf.reduce_sum(self.weights))
            local_step = self.graph.get_tensor_by_name(f"worker_{worker}/local_step:0")
            together = self._ready.join(worker, [local_step, pairs[0][0]])
            gradient = tf.one_hot(local_step + tf.cast(together, tf.int64), self._size)
            train = optimizer.apply_gradients([(gradient, self.weights)], self.step)
        return Try(train, local_step, *last_decision(self.graph).outputs[:2])


def check_rounds(workers: Workers, limit: int, rounds: int) -> list[int]:
    """Lets all workers try once a round; returns the local steps of the accepted updates.

    Checks the rules that hold for any limit, and the variables at the end.
    """
    with many_threaded_session(workers.graph) as session:
        run = session.run
        run(workers.init)
        tries = [each for _ in range(rounds) for each in run(workers.tries)]
        accepted = [int(each.local_step) for each in tries if each.accepted]
        own = sorted(int(each.local_step + each.staleness) for each in tries if each.accepted)
        assert own == list(range(len(own))), "each update takes a step of its own"
        assert all((each.staleness <= limit) == each.accepted for each in tries)
        assert run(workers.step) == len(accepted)
        weights = run(workers.weights)
        applied = np.bincount(accepted, minlength=len(weights))
        np.testing.assert_array_equal(-weights, applied)
        assert applied.max() <= limit + 1
        num_dropped = len(tries) - len(accepted)
        assert run(workers.num_accepted) == len(accepted)
        assert run(workers.num_dropped) == run(workers.stale_counters) == num_dropped
        check_at_rest(workers, run)
    return accepted


@every_switches
@pytest.mark.parametrize("limit, overlap", [(0, True), (0, False), (3, True)])
def test_one_more_than_the_limit_is_accepted_of_a_round(switches, limit, overlap, rounds):
    """All updates are computed from one step, so their true staleness when applied is known."""
    accepted = check_rounds(Workers(dropping(limit), overlap), limit, rounds)
    each = limit + 1
    assert accepted == sorted(list(range(0, rounds * each, each)) * each)


@every_switches
def test_instance_that_is_used_several_times_is_atomic_as_well(switches, rounds):
    one = dropping(0)(Descent())
    assert check_rounds(Workers(lambda _: one), 0, rounds) == list(range(rounds))
