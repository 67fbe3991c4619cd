"""The training of the classifier: what the workers are fed, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tf_condacc.examples.common import training
from tf_condacc.examples.common.backends import AccumulatorClass
from tf_condacc.examples.digits import data, graph
from tf_condacc.examples.digits.inputs import Inputs

v1 = tf.compat.v1

_EVALUATE_EVERY = 10


@dataclass(frozen=True)
class Settings:
    """What to train and how.

    The workers differ in speed on purpose, as machines do: worker ``k`` (from 0) works on batches
    of ``(k + 1) * batch_size`` examples, at most its whole shard. The chief waits for
    ``num_required`` of ``num_workers`` gradients, so that the slow ones are often late.
    """

    num_workers: int = 4
    num_required: int = 3
    steps: int = 600
    batch_size: int = 32
    learning_rate: float = 1e-3
    seed: int = 1


@dataclass
class History(training.History):
    """What happened.

    Attributes:
      accuracies: (step, accuracy on the test images), every few steps and at the end.
    """

    accuracies: list[tuple[int, float]] = field(default_factory=list)


def train(
    accumulator_class: AccumulatorClass,
    settings: Settings,
    on_progress: Callable[[History], None] = lambda history: None,
) -> History:
    """Trains the classifier and returns what happened.

    Args:
      accumulator_class: ``tf_condacc.ConditionalAccumulator`` or TensorFlow's own.
      settings: what to train and how.
      on_progress: called about ten times a second, in the calling thread.

    Raises:
      KeyboardInterrupt: on Ctrl-C, when all threads have ended.
    """
    examples, test = data.load(settings.seed)
    digits = graph.build(
        accumulator_class,
        settings.num_workers,
        settings.num_required,
        settings.learning_rate,
        settings.seed,
    )
    history = History()
    test_feed = digits.test_inputs.feed(test)

    def evaluate(session: v1.Session, update: dict[str, Any]) -> None:
        step = int(update["step"])
        if step % _EVALUATE_EVERY == 0 or step == settings.steps:
            accuracy = session.run(digits.test_accuracy, test_feed)
            history.accuracies.append((step, float(accuracy)))

    training.run(
        digits.training,
        [
            _feeds(inputs, examples[k :: settings.num_workers], k, settings)
            for k, inputs in enumerate(digits.worker_inputs)
        ],
        settings.steps,
        history,
        training.Observers(on_progress=lambda: on_progress(history), after_step=evaluate),
    )
    return history


def _feeds(
    inputs: Inputs, shard: data.Examples, worker: int, settings: Settings
) -> Iterator[training.Feed]:
    batch_size = min((worker + 1) * settings.batch_size, len(shard))
    for batch in data.batches(shard, batch_size, settings.seed + worker):
        yield inputs.feed(batch)
