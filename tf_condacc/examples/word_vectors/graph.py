"""The graph, in which workers push sparse gradients and the chief applies their means.

``tf_condacc.examples.common.rounds`` describes the protocol of workers and chief.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.accumulators import Accumulators
from tf_condacc.examples.common.backends import Backend
from tf_condacc.examples.common.rounds import Chief, Rounds
from tf_condacc.examples.common.training import TrainingGraph
from tf_condacc.examples.word_vectors import model


@dataclass(frozen=True)
class Inputs:
    """Placeholders for batches.

    Attributes:
        words: Numbers of words: `[n] int64`.
        candidates: Numbers of candidate neighbours: `[n, k] int64`.
    """

    words: tf.Tensor
    candidates: tf.Tensor


@dataclass(frozen=True)
class Probe:
    """The gradients of a batch, without accumulators.

    Attributes:
        inputs: The inputs of the batch.
        gradients: The gradient of each embedding.
    """

    inputs: Inputs
    gradients: list[tf.IndexedSlices]


@dataclass(frozen=True)
class WordVectorsGraph:
    """The graph of a training.

    Attributes:
        training: The operations of workers and chief.
        worker_inputs: The inputs of each worker.
        probe: The gradients of a batch, for the comparison with NumPy.
        word_vectors: The learned vectors: `[words, width] float32`.
    """

    training: TrainingGraph
    worker_inputs: list[Inputs]
    probe: Probe
    word_vectors: tf.Tensor


def build(
    backend: Backend,
    num_workers: int,
    num_required: int,
    num_words: int,
    width: int,
    learning_rate: float,
    seed: int,
) -> WordVectorsGraph:
    """Builds the graph of a training with ``num_workers`` workers.

    Args:
        backend: The accumulator classes.
        num_workers: Number of workers.
        num_required: Number of gradients that the chief waits for in each step.
        num_words: Size of the vocabulary.
        width: Size of a word's vector.
        learning_rate: Learning rate of the chief's optimizer.
        seed: Seed of the initial vectors.
    """
    graph = tf.Graph()
    with graph.as_default():
        rounds = Rounds(backend.dense, num_workers)
        embeddings = model.embeddings(num_words, width, seed)
        accumulators = Accumulators(backend.sparse, embeddings.every)
        workers = [_worker(i, rounds, embeddings, accumulators) for i in range(num_workers)]
        training = TrainingGraph(
            graph=graph,
            pushes=[push for _, push in workers],
            chief=_chief(rounds, accumulators, num_required, learning_rate),
            initialize=v1.global_variables_initializer(),
        )
        return WordVectorsGraph(
            training=training,
            worker_inputs=[inputs for inputs, _ in workers],
            probe=_probe(embeddings),
            word_vectors=embeddings.of_words.read_value(),
        )


def _worker(
    number: int, rounds: Rounds, embeddings: model.Embeddings, accumulators: Accumulators
) -> tuple[Inputs, tf.Operation]:
    with v1.name_scope("worker"):
        inputs = _inputs()
        local_step = rounds.local_step(number)
        with tf.control_dependencies([local_step]):
            loss = model.loss(embeddings, inputs.words, inputs.candidates)
        pushes = accumulators.push(loss, local_step)
        return inputs, tf.group(*pushes, rounds.push_statistics(loss, local_step))


def _chief(
    rounds: Rounds, accumulators: Accumulators, num_required: int, learning_rate: float
) -> Chief:
    with v1.name_scope("chief"):
        means = accumulators.take(num_required)
        optimizer = v1.train.AdagradOptimizer(learning_rate, initial_accumulator_value=1e-6)
        apply_means = optimizer.apply_gradients(means, global_step=rounds.global_step)
        rows = tf.stack([tf.size(tf.unique(mean.indices).y) for mean, _ in means])
        return rounds.chief(accumulators.every, apply_means, num_required, figures={"rows": rows})


def _probe(embeddings: model.Embeddings) -> Probe:
    with v1.name_scope("probe"):
        inputs = _inputs()
        loss = model.loss(embeddings, inputs.words, inputs.candidates)
        return Probe(inputs, tf.gradients(loss, embeddings.every))


def _inputs() -> Inputs:
    return Inputs(
        words=v1.placeholder(tf.int64, [None], name="words"),
        candidates=v1.placeholder(tf.int64, [None, None], name="candidates"),
    )
