"""The threads of a training: one for the chief and one for each worker, each with its session."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import tensorflow as tf

from tf_condacc.demo import data, graph

v1 = tf.compat.v1

_REDRAW_SECONDS = 0.1
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
class History:
    """What happened. The lists have one entry per step; the chief's thread appends to them.

    Attributes:
      losses: mean loss over the gradients that went into the step.
      accepted: how many gradients went into the step.
      dropped: stale gradients dropped up to the step; empty where the accumulator counts none.
      accuracies: (step, accuracy on the test images), every few steps and at the end.
      pushed: gradients that the workers computed and pushed in all, set at the end.
      pending: gradients that came after the last step and were never taken, set at the end.
      dropped_in_all: stale gradients dropped in all, set at the end; None where not counted.
      seconds: duration of the training, set at the end.
    """

    losses: list[float] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    pushed: int = 0
    pending: int = 0
    dropped_in_all: int | None = None
    seconds: float = 0.0


def train(
    accumulator_class: graph.AccumulatorClass,
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
    training = graph.build(
        accumulator_class,
        settings.num_workers,
        settings.num_required,
        settings.learning_rate,
        settings.seed,
    )
    history = History()
    with _Threads(training.graph) as threads:
        chief = threads.new_session()
        chief.run(training.initialize)
        chief.run(training.chief.start)
        start = time.monotonic()
        workers = []
        for k, worker in enumerate(training.workers):
            shard = examples[k :: settings.num_workers]
            batch_size = min((k + 1) * settings.batch_size, len(shard))
            batches = data.batches(shard, batch_size, settings.seed + k)
            workers.append(_WorkerLoop(worker, batches, threads.new_session()))
            threads.start(workers[-1].run)
        chief_loop = _ChiefLoop(training, test, settings.steps, history, chief)
        threads.start(chief_loop.run)
        threads.wait(lambda: on_progress(history))
        history.seconds = time.monotonic() - start
        history.pushed = sum(worker.pushed for worker in workers)
        rest = chief.run(training.chief.rest)
        history.pending = int(rest["pending"])
        if "dropped" in rest:
            history.dropped_in_all = int(rest["dropped"])
    on_progress(history)
    return history


class _WorkerLoop:
    """Pushes gradients until the token queue is closed."""

    def __init__(self, worker: graph.Worker, batches: Iterator[data.Examples], session: v1.Session):
        self._worker = worker
        self._batches = batches
        self._session = session
        self.pushed = 0

    def run(self) -> None:
        inputs = self._worker.inputs
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for batch in self._batches:
                feed = {inputs.images: batch.images, inputs.labels: batch.labels}
                self._session.run(self._worker.push, feed)
                self.pushed += 1


class _ChiefLoop:
    """Takes and applies the means, step by step, then closes the token queues."""

    def __init__(
        self,
        training: graph.TrainingGraph,
        test: data.Examples,
        steps: int,
        history: History,
        session: v1.Session,
    ):
        self._training = training
        self._test = test
        self._steps = steps
        self._history = history
        self._session = session

    def run(self) -> None:
        history = self._history
        for _ in range(self._steps):
            update = self._session.run(self._training.chief.update)
            step = int(update["step"])
            history.accepted.append(int(update["accepted"]))
            if "dropped" in update:
                history.dropped.append(int(update["dropped"]))
            if step % _EVALUATE_EVERY == 0 or step == self._steps:
                history.accuracies.append((step, self._test_accuracy()))
            history.losses.append(float(update["loss"]))
        self._session.run(self._training.chief.finish)

    def _test_accuracy(self) -> float:
        inputs = self._training.test_inputs
        feed = {inputs.images: self._test.images, inputs.labels: self._test.labels}
        return float(self._session.run(self._training.test_accuracy, feed))


class _Threads:
    """An in-process server, and threads that run sessions on it.

    Leaving the context ends all threads. Closing a session cancels what runs in it, so that a
    thread also ends that waits for a gradient or for a token that will never come.
    """

    def __init__(self, training_graph: tf.Graph):
        # The model is too small to gain from a GPU or from more than one thread per operation.
        config = v1.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1)
        self._server = v1.train.Server.create_local_server(config=config)
        self._graph = training_graph
        self._coordinator = v1.train.Coordinator()
        self._sessions: list[v1.Session] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._coordinator.request_stop()
        for session in self._sessions:
            session.close()
        for thread in self._threads:
            thread.join()

    def new_session(self) -> v1.Session:
        session = v1.Session(self._server.target, graph=self._graph)
        self._sessions.append(session)
        return session

    def start(self, run: Callable[[], None]) -> None:
        def guarded_run() -> None:
            with self._coordinator.stop_on_exception(), self._unless_stopping():
                run()

        thread = threading.Thread(target=guarded_run)
        self._threads.append(thread)
        thread.start()

    @contextlib.contextmanager
    def _unless_stopping(self) -> Iterator[None]:
        """Hides the errors of a step whose session we have closed ourselves."""
        try:
            yield
        except (tf.errors.OpError, RuntimeError):
            if not self._coordinator.should_stop():
                raise

    def wait(self, on_progress: Callable[[], None]) -> None:
        """Returns when all threads have ended; raises what one of them has raised."""
        for thread in self._threads:
            while thread.is_alive() and not self._coordinator.should_stop():
                thread.join(_REDRAW_SECONDS)
                on_progress()
        if self._coordinator.should_stop():
            self._coordinator.join([])
