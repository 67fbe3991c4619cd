"""The protocol of workers and chief.

In each step of the training:

* A worker waits for a token, reads the global step (its *local step*), reads the variables,
  computes its gradients and applies them to the accumulators with its local step.
* The chief takes the means as soon as each accumulator has ``num_required`` gradients. It updates
  the variables, increments the global step and puts a new token into the queue of each worker.

A take increments the accumulator's own step. If a worker is late, the local step of its gradients
is lower than that step, and the accumulators drop them. They were computed from old values of the
variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.backends import AccumulatorClass


@dataclass(frozen=True)
class Chief:
    """The operations and tensors of the chief.

    Attributes:
        start: Operation to run at the beginning.
        update: Values of one step, all scalars; to be run for each step. ``step`` is the number of
            steps made, ``loss`` the mean loss of the gradients in this step, ``accepted`` the
            number of these gradients, and ``dropped`` the number of gradients dropped so far.
            ``dropped`` is missing if the accumulator does not count it.
        finish: Operation to run at the end, which ends the workers.
        rest: Values to run when all workers have ended. ``pending`` is the number of gradients that
            were not taken, and ``dropped`` the number of gradients dropped in total.
    """

    start: tf.Operation
    update: dict[str, tf.Tensor]
    finish: tf.Operation
    rest: dict[str, tf.Tensor]


class Rounds:
    """The global step, a token queue for each worker, and statistics of the gradients.

    Args:
        dense_class: Class of dense accumulators, for the statistics.
        num_workers: Number of workers.
    """

    def __init__(self, dense_class: AccumulatorClass, num_workers: int):
        self.global_step = v1.train.get_or_create_global_step()
        self._tokens = [
            v1.FIFOQueue(1000, tf.int64, [], shared_name=f"tokens_{i}") for i in range(num_workers)
        ]
        # Each worker applies the vector [loss, 1] here. A take gives the sum of the losses, and the
        # number of gradients that were taken.
        self._statistics = dense_class(
            tf.float32, shape=[2], shared_name="statistics", reduction_type="SUM"
        )

    def local_step(self, worker: int) -> tf.Tensor:
        """Begins a worker's turn. Waits for a token, and then reads the global step: `[] int64`.

        The variables must be read after the step. The chief updates the variables before it
        increments the step, so they are then at least as new as the step.

        Args:
            worker: Index of the worker.
        """
        tokens = self._tokens[worker]
        # A worker that was late finds several tokens. It takes all of them for one turn.
        token = tokens.dequeue_many(tf.maximum(tokens.size(), 1))
        with tf.control_dependencies([token]):
            return self.global_step.read_value()

    def push_statistics(self, loss: tf.Tensor, local_step: tf.Tensor) -> tf.Operation:
        """Returns the operation that ends a worker's turn, to be run with those of its gradients.

        Args:
            loss: The loss of the worker's batch: `[] float32`.
            local_step: The worker's local step: `[] int64`.
        """
        return self._statistics.apply_grad(tf.stack([loss, 1.0]), local_step=local_step)

    def chief(
        self,
        accumulators: Sequence[v1.ConditionalAccumulatorBase],
        apply_means: tf.Operation,
        num_required: int,
        figures: Mapping[str, tf.Tensor],
    ) -> Chief:
        """Builds the operations of the chief.

        Args:
            accumulators: The accumulators of the gradients.
            apply_means: Operation that takes and applies their means, and increments the global
                step.
            num_required: Number of gradients to wait for.
            figures: Further values of a step for ``update``, by their names.
        """
        # After a restart from a checkpoint, the accumulators must have the step of the checkpoint.
        step = self.global_step.read_value()
        synchronize = [a.set_global_step(step) for a in (*accumulators, self._statistics)]
        with tf.control_dependencies(synchronize):
            start = self._hand_out_tokens(step)

        # All takes complete before any token is handed out, so that gradients of the next step are
        # not mixed with those of this step.
        statistics = self._statistics.take_grad(num_required)
        with tf.control_dependencies([apply_means, statistics]):
            new_step = self.global_step.read_value()
            update = {
                "step": new_step,
                "loss": statistics[0] / statistics[1],
                "accepted": tf.cast(statistics[1], tf.int64),
            }
            update |= self._num_dropped() | dict(figures)
            release = self._hand_out_tokens(new_step)
        with tf.control_dependencies([release]):
            update = {name: tf.identity(value) for name, value in update.items()}

        finish = tf.group(*[queue.close() for queue in self._tokens])
        rest = {"pending": self._statistics.num_accumulated()} | self._num_dropped()
        return Chief(start, update, finish, rest)

    def _hand_out_tokens(self, step: tf.Tensor) -> tf.Operation:
        return tf.group(*[queue.enqueue(step) for queue in self._tokens])

    def _num_dropped(self) -> dict[str, tf.Tensor]:
        """Returns the number of dropped gradients as "dropped", if the accumulator counts them."""
        if not hasattr(self._statistics, "num_dropped"):
            return {}
        return {"dropped": self._statistics.num_dropped()}
