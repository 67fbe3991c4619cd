"""Trains a digit classifier with workers that do not wait for each other.

Run it with ``python -m tf_condacc.examples.async_digits``; ``--help`` lists the options.

Each worker reads the global step and the variables, computes gradients and applies them itself, to
variables that other workers have updated since it read them. The staleness of its gradients is the
number of these updates. `DropStaleGradientOptimizer` drops gradients that are too stale.

The program compares two trainings: one that drops stale gradients, and one with a limit so high
that no gradient is dropped. The workers differ in speed: each takes twice as long as the one before
it. ``common/machines.py`` simulates that, and a real program needs none of it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import DropStaleGradientOptimizer
from tf_condacc.examples.common import command_line, data
from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.machines import Machines
from tf_condacc.examples.common.network import Classifier
from tf_condacc.examples.common.records import AsyncHistory, Turn

NAMES = ("dropping", "not dropping")  # The names of the two trainings.
_EVALUATE_EVERY = 20  # Number of gradients.


@dataclass(frozen=True, kw_only=True)
class Settings(command_line.Settings):
    """The options of the program."""

    workers: int = option(4, "number of workers")
    steps: int = option(300, "gradients that the workers compute, applied or not")
    staleness: int = option(
        3, "how many steps behind gradients may be where they are dropped", minimum=0
    )
    batch_size: int = option(32, "examples in a batch")
    learning_rate: float = option(0.03, "learning rate of the workers' momentum optimizer")
    momentum: float = option(0.9, "momentum of the workers' momentum optimizer")
    output: Path = option(Path("async_digits.png"), "where to write the picture")

    def of_both(self) -> tuple[Settings, Settings]:
        """Returns these settings, and a copy with a limit that no gradient exceeds."""
        return self, replace(self, staleness=self.steps)


class Worker:
    """A worker, with the graph of its turns and the loop of its thread.

    The workers share the inner optimizer, with its slots. Each worker has a
    `DropStaleGradientOptimizer` of its own.
    """

    def __init__(
        self, number: int, inner: v1.train.Optimizer, settings: Settings, simulation: Machines
    ):
        self._number = number
        self._model = Classifier(settings.seed)
        optimizer = DropStaleGradientOptimizer(inner, settings.staleness)
        # The optimizer reads the local step before the loss reads any variable.
        gradients, variables = zip(*optimizer.compute_gradients(self._model.loss), strict=True)
        local_step, step, ready = simulation.hold_back(number, gradients)
        train = optimizer.apply_gradients(
            zip(ready, variables, strict=True), global_step=v1.train.get_global_step()
        )
        self.counts = optimizer.num_accepted(), optimizer.num_dropped()
        with tf.control_dependencies([train]):
            self._turn = local_step, step, optimizer.num_dropped(), self._model.loss

    def run(
        self, session: v1.Session, batches: Iterator[data.Examples], history: AsyncHistory
    ) -> None:
        """Takes turns until the training ends."""
        before = 0
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for batch in batches:
                turn = session.run(self._turn, self._model.feed(batch))
                local_step, step, dropped, loss = (value.item() for value in turn)
                history.turns.append(Turn(self._number, local_step, step, dropped == before, loss))
                before = dropped


def train(
    settings: Settings, on_progress: Callable[[AsyncHistory], None] = lambda history: None
) -> AsyncHistory:
    """Trains the classifier, and returns the record. Calls `on_progress` ten times per second."""
    examples, test_examples = data.load(settings.seed)
    history = AsyncHistory()
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        test, simulation = Classifier(settings.seed), Machines(settings.workers)
        inner = v1.train.MomentumOptimizer(settings.learning_rate, settings.momentum)
        workers = [Worker(k, inner, settings, simulation) for k in range(settings.workers)]
        with Cluster() as cluster:
            session = cluster.new_session()
            session.run(v1.global_variables_initializer())
            start = time.monotonic()
            for k, worker in enumerate(workers):
                batches = data.batches(examples, settings.batch_size, settings.seed + k)
                cluster.start(worker.run, cluster.new_session(), batches, history)

            def evaluate(turn: int) -> None:
                if turn % _EVALUATE_EVERY == 0 or turn == settings.steps:
                    accuracy = session.run(test.accuracy, test.feed(test_examples))
                    history.accuracies.append((turn, float(accuracy)))

            cluster.start(simulation.run, session, settings.steps, settings.seed, evaluate)
            cluster.wait(lambda: on_progress(history))
            history.seconds = time.monotonic() - start
            for accepted, dropped in session.run([worker.counts for worker in workers]):
                history.counts.append((int(accepted), int(dropped)))
    on_progress(history)
    return history


def run(settings: Settings) -> None:
    """Trains with and without dropping, and shows the results."""
    # Imported here, so that a missing package can be reported.
    from tf_condacc.examples.common import pictures, report

    histories = {}
    for name, each in zip(NAMES, settings.of_both(), strict=True):
        with report.ProgressBar(each.steps, f"{name:>12}") as bar:
            histories[name] = train(each, bar.show)
    print(report.async_digits(histories, settings.staleness))
    report.save(histories, settings)
    pictures.async_digits(histories, settings.staleness, settings.output)
    print(f"  picture: {settings.output}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit status."""
    command = "python -m tf_condacc.examples.async_digits"
    return command_line.run(run, Settings, command, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
