"""How workers and chief take turns.

One step of training is a round between the workers and the chief:

* A worker waits for a token, notes the global step, reads the variables, computes its gradients
  and pushes them, stamped with the step it noted (its *local step*).
* The chief waits until ``num_required`` gradients of every variable are there, takes their means,
  applies them, advances the global step and hands each worker a new token.

A take advances the accumulator's own step by one. A worker that is late therefore pushes a
gradient whose local step is behind, and the accumulator drops it: it was computed from variables
that are no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tf_condacc.examples.common.backends import AccumulatorClass

v1 = tf.compat.v1


@dataclass(frozen=True)
class Chief:
    """What the chief runs: ``start``, ``update`` for every step, ``finish``, ``rest``.

    ``update`` maps names to the values of one step. ``step`` is how many have been made, ``loss``
    the mean loss and ``accepted`` the number of the gradients that went into this one; ``dropped``,
    absent where the accumulator does not count it, is how many have been dropped so far. ``rest``,
    for when all workers have ended, counts the gradients ``pending`` in the accumulator and those
    ``dropped`` in all.
    """

    start: tf.Operation
    update: dict[str, tf.Tensor]
    finish: tf.Operation
    rest: dict[str, tf.Tensor]


class Rounds:
    """The global step, a queue of tokens for each worker, and statistics on every gradient."""

    def __init__(self, dense_class: AccumulatorClass, num_workers: int):
        self.global_step = v1.train.get_or_create_global_step()
        self._tokens = [
            v1.FIFOQueue(1000, tf.int64, [], shared_name=f"tokens_{i}") for i in range(num_workers)
        ]
        # An accumulator adds up anything. Each worker puts in [its loss, 1]: the chief gets the
        # sum of the losses and the number of gradients that it has really taken.
        self._statistics = dense_class(
            tf.float32, shape=[2], shared_name="statistics", reduction_type="SUM"
        )

    def local_step(self, worker: int) -> tf.Tensor:
        """A worker's turn begins: waits for its token, then reads the global step.

        The variables must be read after it. The chief advances the step after them, so they are
        then at least as new as the step says, whatever the chief does meanwhile.
        """
        tokens = self._tokens[worker]
        # A worker that was late finds several tokens: it takes them all, and works for the newest.
        token = tokens.dequeue_many(tf.maximum(tokens.size(), 1))
        with tf.control_dependencies([token]):
            return self.global_step.read_value()

    def push_statistics(self, loss: tf.Tensor, local_step: tf.Tensor) -> tf.Operation:
        """A worker's turn ends: to be run along with the pushes of its gradients."""
        return self._statistics.apply_grad(tf.stack([loss, 1.0]), local_step=local_step)

    def chief(
        self,
        accumulators: Sequence[v1.ConditionalAccumulatorBase],
        apply_means: tf.Operation,
        num_required: int,
        figures: Mapping[str, tf.Tensor],
    ) -> Chief:
        """The chief's turn.

        Args:
          accumulators: of the gradients.
          apply_means: takes and applies their means, and advances the global step.
          num_required: how many gradients it waits for.
          figures: what else to report of each step, under these names.
        """
        # After a restart from a checkpoint the accumulators must know the step as well.
        step = self.global_step.read_value()
        synchronize = [a.set_global_step(step) for a in (*accumulators, self._statistics)]
        with tf.control_dependencies(synchronize):
            start = self._hand_out_tokens(step)

        # All is taken before any token goes out: what belongs to the next step must find nothing
        # of this one still waiting.
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
        """How many gradients were dropped, under "dropped"; empty for TensorFlow's own class."""
        if not hasattr(self._statistics, "num_dropped"):
            return {}
        return {"dropped": self._statistics.num_dropped()}
