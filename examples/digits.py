"""Trains a digit classifier with several workers, through dense conditional accumulators.

Run it with ``python -m tf_condacc.demo`` or ``python -m tf_condacc.examples.digits``; ``--help``
lists the options.

There is one accumulator for each variable. Workers apply their gradients to the accumulators, and
a chief takes the means of at least three gradients and applies them to the variables. Then each
worker gets a token for its next turn. ``common/rounds.py`` contains the tokens and the threads.

The workers differ in speed, as machines do, since their batches differ in size. The gradients of a
slow worker may be ready only after the chief has made its step. They are stale then, and the
accumulators drop them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc.examples.common import command_line, data, rounds
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.network import Classifier
from tf_condacc.examples.common.records import History
from tf_condacc.examples.common.rounds import Chief, Rounds

_EVALUATE_EVERY = 10  # Number of steps.


@dataclass(frozen=True, kw_only=True)
class Settings(rounds.Settings):
    """The options of the program."""

    steps: int = option(600, "training steps")
    batch_size: int = option(
        32, "examples in a batch of the first worker; that of worker k has k times as many"
    )
    learning_rate: float = option(1e-3, "learning rate of the chief's Adam optimizer")
    output: Path = option(Path("demo.png"), "where to write the picture")


class Training:
    """The graph of workers and chief. Sessions on one server share its state."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.test = Classifier(settings.seed)
        self.variables = v1.trainable_variables()
        library = v1 if settings.backend == "tf" else tf_condacc
        # Through the shared name, all sessions on the server use the same accumulator.
        self.accumulators = [
            library.ConditionalAccumulator(
                v.dtype, shape=v.shape, shared_name=f"{v.op.name}/gradient"
            )
            for v in self.variables
        ]
        self.rounds = Rounds(library.ConditionalAccumulator, settings.workers)

    def worker(self, number: int) -> tuple[Classifier, tf.Operation]:
        """Returns the model of a worker and the operation of its turn."""
        local_step = self.rounds.begin(number)  # Waits for a token.
        model = Classifier(self.settings.seed, after=[local_step])
        gradients = tf.gradients(model.loss, self.variables)
        pushes = [
            accumulator.apply_grad(gradient, local_step)
            for accumulator, gradient in zip(self.accumulators, gradients, strict=True)
        ]
        return model, self.rounds.end(model.loss, local_step, pushes)

    def chief(self) -> Chief:
        """Returns the operations of the chief."""
        required = self.settings.required
        means = [accumulator.take_grad(required) for accumulator in self.accumulators]
        optimizer = v1.train.AdamOptimizer(self.settings.learning_rate)
        train = optimizer.apply_gradients(
            zip(means, self.variables, strict=True), global_step=self.rounds.global_step
        )
        return self.rounds.chief(self.accumulators, train, required)


def train(
    settings: Settings, on_progress: Callable[[History], None] = lambda history: None
) -> History:
    """Trains the classifier, and returns the record. Calls `on_progress` ten times per second."""
    examples, test_examples = data.load(settings.seed)

    def feeds(worker: int, model: Classifier) -> Iterator[rounds.Feed]:
        shard = examples[worker :: settings.workers]
        batch_size = min((worker + 1) * settings.batch_size, len(shard))
        return map(model.feed, data.batches(shard, batch_size, settings.seed + worker))

    with tf.Graph().as_default():
        training = Training(settings)
        workers = [training.worker(number) for number in range(settings.workers)]
        turns = [(push, feeds(k, model)) for k, (model, push) in enumerate(workers)]

        def evaluate(session: v1.Session, update: dict[str, Any], history: History) -> None:
            step = int(update["step"])
            if step % _EVALUATE_EVERY == 0 or step == settings.steps:
                test_feed = training.test.feed(test_examples)
                accuracy = float(session.run(training.test.accuracy, test_feed))
                history.accuracies.append((step, accuracy))

        return rounds.run(training.chief(), turns, settings.steps, on_progress, evaluate)


def run(settings: Settings) -> None:
    """Trains, and shows the results."""
    # Imported here, so that a missing package can be reported.
    from tf_condacc.examples.common import pictures, report

    with report.ProgressBar(settings.steps) as bar:
        history = train(settings, bar.show)
    print(report.digits(history, settings))
    report.save(history, settings)
    pictures.digits(history, settings)
    print(f"  picture: {settings.output}")


def main(
    arguments: list[str] | None = None, command: str = "python -m tf_condacc.examples.digits"
) -> int:
    """Runs the program and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
        command: How the program was started.
    """
    return command_line.run(run, Settings, command, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
