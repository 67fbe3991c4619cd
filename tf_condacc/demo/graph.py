"""The graph: workers push gradients into accumulators, the chief takes and applies the means.

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

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from tf_condacc.demo import model
from tf_condacc.demo.data import IMAGE_SHAPE

v1 = tf.compat.v1

AccumulatorClass = Callable[..., v1.ConditionalAccumulatorBase]


@dataclass(frozen=True)
class Inputs:
    """Where examples are fed."""

    images: tf.Tensor
    labels: tf.Tensor


@dataclass(frozen=True)
class Worker:
    """What one worker runs: ``push`` with a batch fed to ``inputs``, over and over."""

    inputs: Inputs
    push: tf.Operation


@dataclass(frozen=True)
class Chief:
    """What the chief runs: ``start``, ``update`` for every step, ``finish``, ``rest``.

    ``update`` maps names to the values of one step. ``loss`` is the mean loss and ``accepted`` the
    number of the gradients that went into this step; ``dropped``, absent where the accumulator
    does not count it, is how many have been dropped so far. ``rest``, for when all workers have
    ended, counts the gradients ``pending`` in the accumulator and those ``dropped`` in all.
    """

    start: tf.Operation
    update: dict[str, tf.Tensor]
    finish: tf.Operation
    rest: dict[str, tf.Tensor]


@dataclass(frozen=True)
class TrainingGraph:
    """The whole graph. Sessions on one server share its variables, accumulators and queues."""

    graph: tf.Graph
    workers: list[Worker]
    chief: Chief
    test_inputs: Inputs
    test_accuracy: tf.Tensor
    initialize: tf.Operation


class Accumulators:
    """One accumulator per variable, and one for statistics that travels with the gradients."""

    def __init__(self, accumulator_class: AccumulatorClass, variables: list[tf.Variable]):
        self.variables = variables
        # The shared name lets every session on the server find the same accumulator.
        self.gradients = [
            accumulator_class(v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient")
            for v in variables
        ]
        # An accumulator adds up anything. Each worker puts in [its loss, 1]: the chief gets the
        # sum of the losses and the number of gradients that it has really taken.
        self.statistics = accumulator_class(
            tf.float32, shape=[2], shared_name="statistics", reduction_type="SUM"
        )

    @property
    def every(self) -> list[v1.ConditionalAccumulatorBase]:
        return [*self.gradients, self.statistics]

    def push(self, loss: tf.Tensor, local_step: tf.Tensor) -> tf.Operation:
        """A worker's side: the gradients of ``loss``, dropped if ``local_step`` is behind."""
        gradients = tf.gradients(loss, self.variables)
        pushes = [
            accumulator.apply_grad(gradient, local_step=local_step)
            for accumulator, gradient in zip(self.gradients, gradients, strict=True)
        ]
        pushes.append(self.statistics.apply_grad(tf.stack([loss, 1.0]), local_step=local_step))
        return tf.group(*pushes)

    def take(self, num_required: int) -> tuple[list[tuple[tf.Tensor, tf.Variable]], tf.Tensor]:
        """The chief's side: (mean gradient, variable) pairs and [sum of losses, count]."""
        means = [accumulator.take_grad(num_required) for accumulator in self.gradients]
        pairs = list(zip(means, self.variables, strict=True))
        return pairs, self.statistics.take_grad(num_required)

    def num_dropped(self) -> dict[str, tf.Tensor]:
        """How many gradients were dropped, under "dropped"; empty for TensorFlow's own class."""
        if not hasattr(self.statistics, "num_dropped"):
            return {}
        return {"dropped": self.statistics.num_dropped()}


def build(
    accumulator_class: AccumulatorClass,
    num_workers: int,
    num_required: int,
    learning_rate: float,
    seed: int,
) -> TrainingGraph:
    """Builds the graph of a training with ``num_workers`` workers.

    Args:
      accumulator_class: ``tf_condacc.ConditionalAccumulator`` or TensorFlow's own.
      num_workers: how many workers push gradients.
      num_required: how many gradients the chief waits for in each step.
      learning_rate: of the chief's optimizer.
      seed: of the initial weights.
    """
    graph = tf.Graph()
    with graph.as_default():
        global_step = v1.train.get_or_create_global_step()
        test_inputs = _inputs()
        test_scores = model.logits(test_inputs.images, seed)
        accumulators = Accumulators(accumulator_class, v1.trainable_variables())
        tokens = [
            v1.FIFOQueue(1000, tf.int64, [], shared_name=f"tokens_{i}") for i in range(num_workers)
        ]
        return TrainingGraph(
            graph=graph,
            workers=[_worker(queue, global_step, accumulators, seed) for queue in tokens],
            chief=_chief(tokens, global_step, accumulators, num_required, learning_rate),
            test_inputs=test_inputs,
            test_accuracy=model.accuracy(test_scores, test_inputs.labels),
            initialize=v1.global_variables_initializer(),
        )


def _worker(
    tokens: v1.FIFOQueue, global_step: tf.Variable, accumulators: Accumulators, seed: int
) -> Worker:
    with v1.name_scope("worker"):
        inputs = _inputs()
        # A worker that was late finds several tokens: it takes them all, and works for the newest.
        token = tokens.dequeue_many(tf.maximum(tokens.size(), 1))
        with tf.control_dependencies([token]):
            local_step = global_step.read_value()
        # The step is read before the variables, and the chief advances it after them. Whatever the
        # chief does meanwhile, the variables are at least as new as the step says.
        with tf.control_dependencies([local_step]):
            loss = model.loss(model.logits(inputs.images, seed), inputs.labels)
        return Worker(inputs, accumulators.push(loss, local_step))


def _chief(
    tokens: list[v1.FIFOQueue],
    global_step: tf.Variable,
    accumulators: Accumulators,
    num_required: int,
    learning_rate: float,
) -> Chief:
    with v1.name_scope("chief"):
        # After a restart from a checkpoint the accumulators must know the step as well.
        step = global_step.read_value()
        synchronize = [a.set_global_step(step) for a in accumulators.every]
        with tf.control_dependencies(synchronize):
            start = tf.group(*[queue.enqueue(step) for queue in tokens])

        means, statistics = accumulators.take(num_required)
        optimizer = v1.train.AdamOptimizer(learning_rate)
        apply_means = optimizer.apply_gradients(means, global_step=global_step)
        with tf.control_dependencies([apply_means]):
            new_step = global_step.read_value()
            update = {
                "step": new_step,
                "loss": statistics[0] / statistics[1],
                "accepted": tf.cast(statistics[1], tf.int64),
            }
            update |= accumulators.num_dropped()
            release = tf.group(*[queue.enqueue(new_step) for queue in tokens])
        with tf.control_dependencies([release]):
            update = {name: tf.identity(value) for name, value in update.items()}

        finish = tf.group(*[queue.close() for queue in tokens])
        rest = {"pending": accumulators.statistics.num_accumulated()} | accumulators.num_dropped()
        return Chief(start, update, finish, rest)


def _inputs() -> Inputs:
    return Inputs(
        images=v1.placeholder(tf.float32, [None, *IMAGE_SHAPE], name="images"),
        labels=v1.placeholder(tf.int64, [None], name="labels"),
    )
