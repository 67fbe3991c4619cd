"""The graph, in which each worker computes gradients and applies them unless they are stale.

A turn of a worker is one run of its session:

* The worker reads the global step and the variables, and computes its gradients.
* It signals that the gradients are ready, and waits for the time at which a machine of its speed
  would have finished.
* Its `DropStaleGradientOptimizer` applies the gradients, or drops them.

The staleness of the gradients is the number of steps that other workers make meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import DropStaleGradientOptimizer
from tf_condacc.examples.digits import model
from tf_condacc.examples.digits.inputs import Inputs, placeholders

_SIGNAL = 0  # The value of a queue element has no meaning.


@dataclass(frozen=True)
class Worker:
    """The tensors of a worker.

    Attributes:
        inputs: Placeholders of the worker's batches.
        turn: Values of one turn, all scalars. ``local_step`` is the global step at the beginning
            of the turn, ``step`` the global step when the optimizer decides about the gradients,
            ``loss`` the loss of the batch, and ``num_dropped`` the number of the worker's gradients
            that have been dropped so far.
        counts: Numbers of the worker's gradients that have been accepted and dropped: `[] int64`.
    """

    inputs: Inputs
    turn: dict[str, tf.Tensor]
    counts: tuple[tf.Tensor, tf.Tensor]


class Machines:
    """Queues that simulate machines of different speed.

    Computed gradients are not used before ``finish`` is run for their worker. The operation
    ``wait_for_gradients`` completes when a further worker has computed its gradients.

    Args:
        num_workers: Number of workers.
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
        """Returns a tensor that is computed when the gradients may be used."""
        with tf.control_dependencies(gradients):
            ready = self._ready.enqueue(_SIGNAL)
        with tf.control_dependencies([ready]):
            return self._finished[worker].dequeue()


@dataclass(frozen=True)
class AsyncGraph:
    """The graph of a training. Sessions on one server share its variables and queues.

    Attributes:
        graph: The graph.
        workers: The tensors of each worker.
        machines: The simulated machines.
        initialize: Operation that initializes the variables.
        test_inputs: The inputs of the test.
        test_accuracy: Accuracy on the test inputs: `[] float32`.
    """

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
        num_workers: Number of workers.
        staleness: Highest number of steps by which gradients may be behind.
        learning_rate: Learning rate of the workers' momentum optimizer.
        momentum: Momentum of that optimizer.
        seed: Seed of the initial weights.
    """
    graph = tf.Graph()
    with graph.as_default():
        test_inputs = placeholders()
        test_scores = model.logits(test_inputs.images, seed)
        v1.train.get_or_create_global_step()
        # The workers share the model and the momentum. Each counts its own dropped gradients.
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

        # This part simulates the machine, and a real program does not need it. Only one worker
        # finishes at a time, so the two reads give the values that the optimizer reads.
        local_step = global_step.read_value()
        with tf.control_dependencies([machines.hold_back(number, [local_step, *gradients])]):
            step = global_step.read_value()
        with tf.control_dependencies([step]):
            ready_gradients = [tf.identity(gradient) for gradient in gradients]

        train = optimizer.apply_gradients(
            zip(ready_gradients, variables, strict=True), global_step=global_step
        )
        counts = optimizer.num_accepted(), optimizer.num_dropped()
        with tf.control_dependencies([train]):
            turn = {"num_dropped": optimizer.num_dropped()}
        turn |= {"local_step": local_step, "step": step, "loss": loss}
        return Worker(inputs, turn, counts)
