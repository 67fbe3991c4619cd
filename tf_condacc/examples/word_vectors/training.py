"""The training of word vectors. Feeds the workers and records the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from tensorflow.compat import v1

from tf_condacc.examples.common import training
from tf_condacc.examples.common.backends import Backend
from tf_condacc.examples.word_vectors import graph
from tf_condacc.examples.word_vectors.comparison import Gradient
from tf_condacc.examples.word_vectors.text import Batch, Text

NUM_PROBED = 4


@dataclass(frozen=True)
class Settings:
    """The settings of a training. Each worker has its own part of the text.

    Attributes:
        num_workers: Number of workers.
        num_required: Number of gradients that the chief waits for in each step.
        steps: Number of steps of the chief.
        batch_size: Number of words in a batch.
        learning_rate: Learning rate of the chief's Adagrad optimizer.
        width: Size of a word's vector.
        seed: Seed of the batches and the initial vectors.
    """

    num_workers: int = 4
    num_required: int = 3
    steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 0.1
    width: int = 48
    seed: int = 1


@dataclass
class History(training.History):
    """The record of a training.

    Attributes:
        rows: For each step, the numbers of updated rows of the two embeddings.
    """

    rows: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Learned:
    """The result of a training.

    Attributes:
        vectors: Vectors of the words: `[words, width] float32`.
        probed: For each embedding, the gradients of some further batches.
    """

    vectors: np.ndarray
    probed: list[list[Gradient]]


def train(
    backend: Backend,
    text: Text,
    settings: Settings,
    on_progress: Callable[[History], None] = lambda history: None,
) -> tuple[History, Learned]:
    """Learns word vectors, and returns the record and the result of the training.

    Args:
        backend: The accumulator classes.
        text: The text.
        settings: The settings of the training.
        on_progress: Function that the calling thread calls about ten times per second.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All threads have ended.
    """
    built = graph.build(
        backend,
        settings.num_workers,
        settings.num_required,
        len(text.vocabulary),
        settings.width,
        settings.learning_rate,
        settings.seed,
    )
    history = History()
    learned: list[Learned] = []

    def count_rows(session: v1.Session, update: dict[str, Any]) -> None:
        of_words, of_neighbours = update["rows"]
        history.rows.append((int(of_words), int(of_neighbours)))

    def keep(session: v1.Session) -> None:
        learned.append(_look_at(built, text, settings, session))

    training.run(
        built.training,
        [
            _feeds(
                inputs, text.batches(k, settings.num_workers, settings.batch_size, settings.seed)
            )
            for k, inputs in enumerate(built.worker_inputs)
        ],
        settings.steps,
        history,
        training.Observers(lambda: on_progress(history), count_rows, keep),
    )
    return history, learned[0]


def _look_at(
    built: graph.WordVectorsGraph, text: Text, settings: Settings, session: v1.Session
) -> Learned:
    probed: list[list[Gradient]] = [[] for _ in built.probe.gradients]
    for batch in islice(text.batches(0, 1, settings.batch_size, settings.seed), NUM_PROBED):
        slices = session.run(built.probe.gradients, _feed(built.probe.inputs, batch))
        for gradients, each in zip(probed, slices, strict=True):
            gradients.append(Gradient(each.indices, each.values, tuple(each.dense_shape)))
    return Learned(session.run(built.word_vectors), probed)


def _feeds(inputs: graph.Inputs, batches: Iterator[Batch]) -> Iterator[training.Feed]:
    for batch in batches:
        yield _feed(inputs, batch)


def _feed(inputs: graph.Inputs, batch: Batch) -> training.Feed:
    return {inputs.words: batch.words, inputs.candidates: batch.candidates}
