"""Workers of different speed, which are simulated so that a seed gives the same training."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

_JITTER = (0.5, 1.5)
_SIGNAL = 0  # The value of a queue element has no meaning.


class Machines:
    """Queues that simulate machines of different speed, with one worker on each.

    Args:
        num_workers: Number of workers.
    """

    def __init__(self, num_workers: int):
        self._ready = v1.FIFOQueue(num_workers, tf.int64, [], shared_name="ready")
        self._finished = [
            v1.FIFOQueue(1, tf.int64, [], shared_name=f"finished_{i}") for i in range(num_workers)
        ]
        self._wait_for_gradients = self._ready.dequeue().op
        self._finish = [queue.enqueue(_SIGNAL) for queue in self._finished]
        self._stop = tf.group(*[queue.close() for queue in self._finished])

    def hold_back(
        self, worker: int, gradients: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Holds gradients back until the machine of a worker would have computed them.

        Returns:
            The global step when the computation begins and when it has ended, and the gradients.
            Only one worker finishes at a time, so these are the steps that its optimizer reads.
        """
        global_step = v1.train.get_global_step()
        local_step = global_step.read_value()
        with tf.control_dependencies([local_step, *gradients]):
            ready = self._ready.enqueue(_SIGNAL)
        with tf.control_dependencies([ready]):
            finished = self._finished[worker].dequeue()
        with tf.control_dependencies([finished]):
            step = global_step.read_value()
        with tf.control_dependencies([step]):
            return local_step, step, [tf.identity(gradient) for gradient in gradients]

    def run(
        self, session: v1.Session, turns: int, seed: int, after_turn: Callable[[int], None]
    ) -> None:
        """Lets workers finish one by one, as their simulated speed demands, and then ends them.

        The next worker finishes only after the previous one has ended its turn and has computed the
        gradients of its next turn. The local steps of all gradients, and the training, therefore do
        not depend on the speed of this machine.

        Args:
            session: A session that no other thread uses.
            turns: Number of turns of all workers together.
            seed: Seed of the times that the workers take.
            after_turn: Function that is called with the number of turns after each turn.
        """
        for _ in self._finish:
            session.run(self._wait_for_gradients)
        for turn, worker in enumerate(islice(finishes(len(self._finish), seed), turns), start=1):
            session.run(self._finish[worker])
            session.run(self._wait_for_gradients)
            after_turn(turn)
        session.run(self._stop)


def times_as_long(worker: int) -> int:
    """Returns a worker's average time for a gradient, in units of the first worker's: 1, 2, 4, …"""
    return 2**worker


def finishes(num_workers: int, seed: int) -> Iterator[int]:
    """Yields without end the index of the worker that finishes next.

    The time for a gradient varies between half and one and a half times the worker's average.

    Args:
        num_workers: Number of workers.
        seed: Seed of the random times.
    """
    rng = np.random.default_rng(seed)

    def duration(worker: int) -> float:
        return times_as_long(worker) * rng.uniform(*_JITTER)

    due = [(duration(worker), worker) for worker in range(num_workers)]
    heapq.heapify(due)
    while True:
        now, worker = due[0]
        yield worker
        heapq.heapreplace(due, (now + duration(worker), worker))
