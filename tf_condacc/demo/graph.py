"""The graph: workers push gradients into accumulators, the chief takes and applies the means.

``tf_condacc.examples.common.rounds`` tells how they take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tf_condacc.demo import model
from tf_condacc.demo.data import IMAGE_SHAPE
from tf_condacc.examples.common.backends import AccumulatorClass
from tf_condacc.examples.common.rounds import Chief, Rounds
from tf_condacc.examples.common.training import TrainingGraph

v1 = tf.compat.v1


@dataclass(frozen=True)
class Inputs:
    """Where examples are fed."""

    images: tf.Tensor
    labels: tf.Tensor


@dataclass(frozen=True)
class DigitsGraph:
    """The whole graph: a training, the inputs of each worker, and a test."""

    training: TrainingGraph
    worker_inputs: list[Inputs]
    test_inputs: Inputs
    test_accuracy: tf.Tensor


class Accumulators:
    """One accumulator per variable."""

    def __init__(self, accumulator_class: AccumulatorClass, variables: list[tf.Variable]):
        self.variables = variables
        # The shared name lets every session on the server find the same accumulator.
        self.every = [
            accumulator_class(v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient")
            for v in variables
        ]

    def push(self, loss: tf.Tensor, local_step: tf.Tensor) -> list[tf.Operation]:
        """A worker's side: the gradients of ``loss``, dropped if ``local_step`` is behind."""
        gradients = tf.gradients(loss, self.variables)
        return [
            accumulator.apply_grad(gradient, local_step=local_step)
            for accumulator, gradient in zip(self.every, gradients, strict=True)
        ]

    def take(self, num_required: int) -> list[tuple[tf.Tensor, tf.Variable]]:
        """The chief's side: (mean gradient, variable) pairs."""
        means = [accumulator.take_grad(num_required) for accumulator in self.every]
        return list(zip(means, self.variables, strict=True))


def build(
    accumulator_class: AccumulatorClass,
    num_workers: int,
    num_required: int,
    learning_rate: float,
    seed: int,
) -> DigitsGraph:
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
        rounds = Rounds(accumulator_class, num_workers)
        test_inputs = _inputs()
        test_scores = model.logits(test_inputs.images, seed)
        accumulators = Accumulators(accumulator_class, v1.trainable_variables())
        workers = [_worker(i, rounds, accumulators, seed) for i in range(num_workers)]
        training = TrainingGraph(
            graph=graph,
            pushes=[push for _, push in workers],
            chief=_chief(rounds, accumulators, num_required, learning_rate),
            initialize=v1.global_variables_initializer(),
        )
        return DigitsGraph(
            training=training,
            worker_inputs=[inputs for inputs, _ in workers],
            test_inputs=test_inputs,
            test_accuracy=model.accuracy(test_scores, test_inputs.labels),
        )


def _worker(
    number: int, rounds: Rounds, accumulators: Accumulators, seed: int
) -> tuple[Inputs, tf.Operation]:
    with v1.name_scope("worker"):
        inputs = _inputs()
        local_step = rounds.local_step(number)
        with tf.control_dependencies([local_step]):
            loss = model.loss(model.logits(inputs.images, seed), inputs.labels)
        pushes = accumulators.push(loss, local_step)
        return inputs, tf.group(*pushes, rounds.push_statistics(loss, local_step))


def _chief(
    rounds: Rounds, accumulators: Accumulators, num_required: int, learning_rate: float
) -> Chief:
    with v1.name_scope("chief"):
        optimizer = v1.train.AdamOptimizer(learning_rate)
        apply_means = optimizer.apply_gradients(
            accumulators.take(num_required), global_step=rounds.global_step
        )
        return rounds.chief(accumulators.every, apply_means, num_required, figures={})


def _inputs() -> Inputs:
    return Inputs(
        images=v1.placeholder(tf.float32, [None, *IMAGE_SHAPE], name="images"),
        labels=v1.placeholder(tf.int64, [None], name="labels"),
    )
