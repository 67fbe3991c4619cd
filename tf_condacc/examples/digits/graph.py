"""The graph, in which workers push gradients and the chief takes and applies their means.

``tf_condacc.examples.common.rounds`` describes the protocol of workers and chief.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.accumulators import Accumulators
from tf_condacc.examples.common.backends import AccumulatorClass
from tf_condacc.examples.common.rounds import Chief, Rounds
from tf_condacc.examples.common.training import TrainingGraph
from tf_condacc.examples.digits import model
from tf_condacc.examples.digits.inputs import Inputs, placeholders


@dataclass(frozen=True)
class DigitsGraph:
    """The graph of a training.

    Attributes:
        training: The operations of workers and chief.
        worker_inputs: The inputs of each worker.
        test_inputs: The inputs of the test.
        test_accuracy: Accuracy on the test inputs: `[] float32`.
    """

    training: TrainingGraph
    worker_inputs: list[Inputs]
    test_inputs: Inputs
    test_accuracy: tf.Tensor


def build(
    accumulator_class: AccumulatorClass,
    num_workers: int,
    num_required: int,
    learning_rate: float,
    seed: int,
) -> DigitsGraph:
    """Builds the graph of a training with ``num_workers`` workers.

    Args:
        accumulator_class: ``tf_condacc.ConditionalAccumulator`` or TensorFlow's own class.
        num_workers: Number of workers.
        num_required: Number of gradients that the chief waits for in each step.
        learning_rate: Learning rate of the chief's optimizer.
        seed: Seed of the initial weights.
    """
    graph = tf.Graph()
    with graph.as_default():
        rounds = Rounds(accumulator_class, num_workers)
        test_inputs = placeholders()
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
        inputs = placeholders()
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
