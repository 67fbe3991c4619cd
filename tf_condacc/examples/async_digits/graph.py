"""The graph: each worker computes gradients and applies them itself, unless they are stale.

A worker's turn is one run of its session:

* It reads the global step and the variables, and computes its gradients.
* It says that they are ready, and waits to be told that a machine of its speed has them too.
* Its `DropStaleGradientOptimizer` applies them, or drops them.

Meanwhile the others apply theirs. By as many steps its own are stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tf_condacc import DropStaleGradientOptimizer
from tf_condacc.examples.digits import model
from tf_condacc.examples.digits.inputs import Inputs, placeholders

v1 = tf.compat.v1

_SIGNAL = 0  # the queues carry signals; what is in them means nothing


@dataclass(frozen=True)
class Worker:
    """What a worker runs.

    Attributes:
      inputs: where its batches are fed.
      turn: the values of one turn. ``local_step`` is the global step when it began, ``step`` that
        when its gradients were decided on, ``loss`` that of its batch, and ``num_dropped`` how many
        of its gradients have been dropped so far.
      counts: how many of its gradients have been accepted and dropped.
    """

    inputs: Inputs
    turn: dict[str, tf.Tensor]
    counts: tuple[tf.Tensor, tf.Tensor]


class Machines:
    """Signals that make workers as slow as the machines they pretend to run on.

    Gradients are held back between their computation and their use until ``finish`` is run for
    their worker. ``wait_for_gradients`` ends when the gradients of another worker are held back.
    """

    def __init__(self, num_workers: int):
        self._ready = v1.FIFOQueue(num_workers, tf.int64, [], shared_name="ready")
        self._finished = [
            v1.FIFOQueue(1, tf.int64, [], shared_name=f"finished_{i}") for i in range(num_workers)
        ]
        self.wait_for_gradients = self._ready.dequeue().op
        self.finish = [queue.enqueue(_SIGNAL) for queue in self._finished]
        self.stop = tf.group(*[queue.close() for queue in self._finished])

    def hold_back(self, worker: int, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """To be waited for before the gradients are used."""
        with tf.control_dependencies(gradients):
            ready = self._ready.enqueue(_SIGNAL)
        with tf.control_dependencies([ready]):
            return self._finished[worker].dequeue()


@dataclass(frozen=True)
class AsyncGraph:
    """The whole graph. Sessions on one server share its variables and queues."""

    graph: tf.Graph
    workers: list[Worker]
    machines: Machines
    initialize: tf.Operation
    test_inputs: Inputs
    test_accuracy: tf.Tensor


def build(
    num_workers: int, staleness: int, learning_rate: float, momentum: float, seed: int
) -> AsyncGraph:
    """Builds the graph of a training.

    Args:
      num_workers: how many workers train.
      staleness: how many steps behind gradients may be.
      learning_rate: of the workers' momentum optimizer.
      momentum: likewise.
      seed: of the initial weights.
    """
    graph = tf.Graph()
    with graph.as_default():
        test_inputs = placeholders()
        test_scores = model.logits(test_inputs.images, seed)
        v1.train.get_or_create_global_step()
        # The workers share the model and its momentum; what is dropped each counts for itself.
        inner = v1.train.MomentumOptimizer(learning_rate, momentum)
        machines = Machines(num_workers)
        workers = [
            _worker(i, DropStaleGradientOptimizer(inner, staleness), machines, seed)
            for i in range(num_workers)
        ]
        return AsyncGraph(
            graph=graph,
            workers=workers,
            machines=machines,
            initialize=v1.global_variables_initializer(),
            test_inputs=test_inputs,
            test_accuracy=model.accuracy(test_scores, test_inputs.labels),
        )


def _worker(
    number: int, optimizer: DropStaleGradientOptimizer, machines: Machines, seed: int
) -> Worker:
    with v1.name_scope("worker"):
        global_step = v1.train.get_global_step()
        inputs = placeholders()
        loss = model.loss(model.logits(inputs.images, seed), inputs.labels)
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)

        # Without this part a worker is as slow as the machine is, and the two reads are not needed.
        # One worker at a time is told that it has finished, so they see what the optimizer sees.
        local_step = global_step.read_value()
        with tf.control_dependencies([machines.hold_back(number, [local_step, *gradients])]):
            step = global_step.read_value()
        with tf.control_dependencies([step]):
            gradients = [tf.identity(gradient) for gradient in gradients]

        train = optimizer.apply_gradients(
            zip(gradients, variables, strict=True), global_step=global_step
        )
        counts = optimizer.num_accepted(), optimizer.num_dropped()
        with tf.control_dependencies([train]):
            turn = {"num_dropped": optimizer.num_dropped()}
        turn |= {"local_step": local_step, "step": step, "loss": loss}
        return Worker(inputs, turn, counts)
