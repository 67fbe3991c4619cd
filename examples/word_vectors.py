"""Learns word vectors with several workers, through sparse conditional accumulators.

Run it with ``python -m tf_condacc.examples.word_vectors``; ``--help`` lists the options.

The model is skip-gram with negative sampling, and the text is the language reference in Python's
module ``pydoc_data.topics``. A worker's gradient of an embedding is the gradient of ``tf.gather``:
it has one row for every word of the batch, in the order of the batch, so that frequent words have
several rows. Workers apply such gradients to one accumulator per embedding, and a chief takes the
means and applies them. ``common/rounds.py`` describes their turns.

At the end, some gradients are given to tf_condacc's and to TensorFlow's own sparse accumulator, and
both means are compared with those of NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc.examples.common import command_line, rounds
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.records import History
from tf_condacc.examples.common.rounds import Chief, Rounds
from tf_condacc.examples.common.skip_gram import SkipGram
from tf_condacc.examples.common.text import Batch, Text

_NUM_PROBED = 4  # Number of batches whose gradients are compared at the end.


@dataclass(frozen=True, kw_only=True)
class Settings(rounds.Settings):
    """The options of the program."""

    steps: int = option(4000, "training steps")
    batch_size: int = option(256, "pairs of words in a batch")
    learning_rate: float = option(0.1, "learning rate of the chief's Adagrad optimizer")
    width: int = option(48, "size of a word's vector")
    output: Path = option(Path("word_vectors.png"), "where to write the picture")


class Training:
    """The graph of workers and chief. Sessions on one server share its state."""

    def __init__(self, settings: Settings, num_words: int):
        self.settings, self.num_words = settings, num_words
        self.probe = self.new_model()
        self.variables = [self.probe.of_words, self.probe.of_neighbours]
        self.probe_gradients = tf.gradients(self.probe.loss, self.variables)
        library = v1 if settings.backend == "tf" else tf_condacc
        # Through the shared name, all sessions on the server use the same accumulator.
        self.accumulators = [
            library.SparseConditionalAccumulator(
                v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient"
            )
            for v in self.variables
        ]
        self.rounds = Rounds(library.ConditionalAccumulator, settings.workers)

    def new_model(self, after: Sequence[tf.Tensor] = ()) -> SkipGram:
        """Returns the model with inputs of its own. All models share the variables."""
        return SkipGram(self.num_words, self.settings.width, self.settings.seed, after)

    def worker(self, number: int) -> tuple[SkipGram, tf.Operation]:
        """Returns the model of a worker and the operation of its turn."""
        local_step = self.rounds.begin(number)  # Waits for a token.
        model = self.new_model(after=[local_step])
        gradients = tf.gradients(model.loss, self.variables)  # They are tf.IndexedSlices.
        pushes = [
            accumulator.apply_indexed_slices_grad(gradient, local_step)
            for accumulator, gradient in zip(self.accumulators, gradients, strict=True)
        ]
        return model, self.rounds.end(model.loss, local_step, pushes)

    def chief(self) -> Chief:
        """Returns the operations of the chief."""
        required = self.settings.required
        means = [a.take_indexed_slices_grad(required) for a in self.accumulators]
        optimizer = v1.train.AdagradOptimizer(self.settings.learning_rate, 1e-6)
        train = optimizer.apply_gradients(
            zip(means, self.variables, strict=True), global_step=self.rounds.global_step
        )
        rows = tf.stack([tf.size(tf.unique(mean.indices).y) for mean in means])
        return self.rounds.chief(self.accumulators, train, required, rows=rows)


def train(
    settings: Settings, text: Text, on_progress: Callable[[History], None] = lambda history: None
) -> tuple[History, np.ndarray, list[Any]]:
    """Returns the record, the vectors of all words, and some gradients of each embedding."""
    learned: list[Any] = []

    def batches(shard: int, num_shards: int) -> Iterator[Batch]:
        return text.batches(shard, num_shards, settings.batch_size, settings.seed)

    def count_rows(session: v1.Session, update: dict[str, Any], history: History) -> None:
        history.rows.append(tuple(map(int, update["rows"])))

    def look(session: v1.Session) -> None:
        feeds = map(training.probe.feed, islice(batches(0, 1), _NUM_PROBED))
        gradients = [session.run(training.probe_gradients, feed) for feed in feeds]
        learned.extend([session.run(training.probe.of_words), zip(*gradients, strict=True)])

    with tf.Graph().as_default():
        training = Training(settings, len(text.vocabulary))
        workers = [training.worker(number) for number in range(settings.workers)]
        turns = [
            (push, map(model.feed, batches(k, settings.workers)))
            for k, (model, push) in enumerate(workers)
        ]
        history = rounds.run(training.chief(), turns, settings.steps, on_progress, count_rows, look)
    return history, learned[0], list(learned[1])


def run(settings: Settings) -> None:
    """Learns word vectors, and shows the results."""
    # Imported here, so that a missing package can be reported.
    from tf_condacc.examples.common import pictures, report

    tf.get_logger().setLevel("ERROR")  # TensorFlow's Adagrad triggers warnings of its own.
    text = Text()
    with report.ProgressBar(settings.steps) as bar:
        history, vectors, gradients = train(settings, text, bar.show)
    print(report.word_vectors(history, settings, text))
    print(report.nearest_words(vectors, text))
    print(report.sparse_comparison(gradients, settings.backend))
    report.save(history, settings)
    pictures.word_vectors(history, settings, len(text.vocabulary))
    print(f"Picture: {settings.output}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit status."""
    command = "python -m tf_condacc.examples.word_vectors"
    return command_line.run(run, Settings, command, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
