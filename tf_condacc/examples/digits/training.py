"""The training of the classifier. Feeds the workers and records the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tensorflow.compat import v1

from tf_condacc.examples.common import training
from tf_condacc.examples.common.backends import AccumulatorClass
from tf_condacc.examples.digits import data, graph
from tf_condacc.examples.digits.inputs import Inputs

_EVALUATE_EVERY = 10


@dataclass(frozen=True)
class Settings:
    """The settings of a training.

    The workers differ in speed, as machines do. Worker ``k``, counted from 0, gets batches of
    ``(k + 1) * batch_size`` examples, but no more than its shard contains. The chief waits for
    ``num_required`` gradients of ``num_workers``, so that the gradients of slow workers are often
    stale.

    Attributes:
        num_workers: Number of workers.
        num_required: Number of gradients that the chief waits for in each step.
        steps: Number of steps of the chief.
        batch_size: Number of examples in a batch of the first worker.
        learning_rate: Learning rate of the chief's Adam optimizer.
        seed: Seed of the data split, the batches and the weights.
    """

    num_workers: int = 4
    num_required: int = 3
    steps: int = 600
    batch_size: int = 32
    learning_rate: float = 1e-3
    seed: int = 1


@dataclass
class History(training.History):
    """The record of a training.

    Attributes:
        accuracies: Pairs of a step and the accuracy on the test images, for every tenth step and
            the last one.
    """

    accuracies: list[tuple[int, float]] = field(default_factory=list)


def train(
    accumulator_class: AccumulatorClass,
    settings: Settings,
    on_progress: Callable[[History], None] = lambda history: None,
) -> History:
    """Trains the classifier, and returns the record of the training.

    Args:
        accumulator_class: ``tf_condacc.ConditionalAccumulator`` or TensorFlow's own class.
        settings: The settings of the training.
        on_progress: Function that the calling thread calls about ten times per second.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All threads have ended.
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
