"""The training of word vectors: what the workers are fed, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc.examples.common import training
from tf_condacc.examples.common.backends import Backend
from tf_condacc.examples.word_vectors import graph
from tf_condacc.examples.word_vectors.comparison import Gradient
from tf_condacc.examples.word_vectors.text import Batch, Text

v1 = tf.compat.v1

NUM_PROBED = 4


@dataclass(frozen=True)
class Settings:
    """What to train and how; each worker has a part of the text for itself."""

    num_workers: int = 4
    num_required: int = 3
    steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 0.1
    width: int = 48
    seed: int = 1


@dataclass
class History(training.History):
    """What happened.

    Attributes:
      rows: of each step, how many rows of both embeddings were updated.
    """

    rows: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Learned:
    """What a training leaves besides its history.

    Attributes:
      vectors: of the words, ``[words, width]``.
      probed: for each embedding the gradients of some further batches, as workers push them.
    """

    vectors: np.ndarray
    probed: list[list[Gradient]]


def train(
    backend: Backend,
    text: Text,
    settings: Settings,
    on_progress: Callable[[History], None] = lambda history: None,
) -> tuple[History, Learned]:
    """Learns word vectors.

    Args:
      backend: whose accumulators.
      text: to learn from.
      settings: how.
      on_progress: called about ten times a second, in the calling thread.

    Raises:
      KeyboardInterrupt: on Ctrl-C, when all threads have ended.
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
        history.rows.append(tuple(map(int, update["rows"])))

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
