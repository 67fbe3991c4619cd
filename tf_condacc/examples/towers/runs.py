"""Training, evaluation and prediction with towers."""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.estimator import Estimator, RunConfig, replicate_model_fn
from tf_condacc.examples.digits import data
from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers.model import model_fn

_WARM_UP = 5  # Number of steps that are not timed.


@dataclass(frozen=True)
class Settings:
    """The settings of the trainings.

    Attributes:
        towers: Numbers of towers, with one training for each.
        steps: Number of steps of a training.
        compared_steps: Number of steps of a training whose weights are compared.
        batch_size: Number of examples in a batch, for all towers together.
        learning_rate: Learning rate of the Momentum optimizer.
        seed: Seed of the data split, the batches and the weights.
    """

    towers: tuple[int, ...] = (1, 2, 4)
    steps: int = 300
    compared_steps: int = 40
    batch_size: int = 64
    learning_rate: float = 0.05
    seed: int = 1


@dataclass
class Run:
    """The record of a training.

    Attributes:
        title: Name of the training.
        losses: Loss of each step.
        moments: Time at which each step ended, in seconds.
        accuracy: Accuracy on the test examples that `evaluate` returns.
        predicted: Accuracy on the test examples of the classes that `predict` yields.
        weights: Values of the variables before the first step and after each step. Empty if they
            are not recorded.
    """

    title: str
    losses: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    predicted: float = 0.0
    weights: list[dict[str, np.ndarray]] = field(default_factory=list)

    @property
    def step_seconds(self) -> float:
        """The median time of a step."""
        return float(np.median(np.diff(self.moments[min(_WARM_UP, len(self.moments) - 2) :])))


def title(num_towers: int) -> str:
    """Returns a number of towers as text."""
    return "1 tower" if num_towers == 1 else f"{num_towers} towers"


def batches_of(examples: Examples, settings: Settings) -> Iterator[Examples]:
    """Yields the batches of a training without end. All trainings get the same batches."""
    return data.batches(examples, settings.batch_size, settings.seed)


def train_and_test(
    num_towers: int,
    settings: Settings,
    train: Examples,
    test: Examples,
    on_step: Callable[[], None] = lambda: None,
) -> Run:
    """Trains with batch normalization, then evaluates and predicts with the same number of towers.

    Args:
        num_towers: Number of towers.
        settings: The settings of the training.
        train: The training examples.
        test: The test examples.
        on_step: Function that is called after each step.
    """
    run = Run(title(num_towers))
    with tempfile.TemporaryDirectory() as folder:
        estimator = new_estimator(num_towers, settings, folder, batch_norm=True)
        watch = _Watch(run, num_towers, on_step)
        estimator.train(
            lambda: _dataset(lambda: batches_of(train, settings)),
            hooks=[watch],
            steps=settings.steps,
        )
        tests = functools.partial(_dataset, lambda: [test])
        run.accuracy = float(estimator.evaluate(tests, steps=1)["accuracy"])
        predictions = estimator.predict(tests, predict_keys=["class"])
        classes = [each["class"] for each in itertools.islice(predictions, len(test))]
        predictions.close()
        run.predicted = float(np.mean(np.array(classes) == test.labels))
    return run


def train_and_watch(num_towers: int, settings: Settings, batches: Sequence[Examples]) -> Run:
    """Trains without batch normalization, and records the weights of each step."""
    run = Run(title(num_towers))
    with tempfile.TemporaryDirectory() as folder:
        estimator = new_estimator(num_towers, settings, folder, batch_norm=False)
        watch = _Watch(run, num_towers, keep_weights=True)
        estimator.train(lambda: _dataset(lambda: batches), hooks=[watch], steps=len(batches))
    return run


def new_estimator(num_towers: int, settings: Settings, folder: str, batch_norm: bool) -> Estimator:
    """Returns an Estimator of the model, with one virtual CPU for each tower."""
    return Estimator(
        replicate_model_fn(model_fn, devices=[f"/CPU:{k}" for k in range(num_towers)]),
        config=RunConfig(
            model_dir=folder,
            tf_random_seed=settings.seed,
            session_config=v1.ConfigProto(device_count={"CPU": num_towers}),
        ),
        params={
            "learning_rate": settings.learning_rate,
            "batch_norm": batch_norm,
            "seed": settings.seed,
        },
    )


def _dataset(batches: Callable[[], Iterable[Examples]]) -> tf.data.Dataset:
    pairs = (
        {"image": tf.TensorSpec([None, *data.IMAGE_SHAPE], tf.float32)},
        tf.TensorSpec([None], tf.int64),
    )
    return tf.data.Dataset.from_generator(
        lambda: (({"image": batch.images}, batch.labels) for batch in batches()),
        output_signature=pairs,
    )


class _Watch(v1.train.SessionRunHook):
    """A hook that records each step.

    Args:
        run: The record.
        num_towers: Number of towers.
        on_step: Function that is called after each step.
        keep_weights: Whether to record the weights.
    """

    def __init__(
        self,
        run: Run,
        num_towers: int,
        on_step: Callable[[], None] = lambda: None,
        keep_weights: bool = False,
    ):
        self._run = run
        self._loss = "mean_loss:0" if num_towers == 1 else "loss:0"
        self._on_step = on_step
        self._keep_weights = keep_weights
        self._variables: dict[str, tf.Variable] = {}

    def begin(self) -> None:
        """Finds the variables of the graph."""
        self._variables = {v.op.name: v for v in v1.trainable_variables()}

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Records the initial weights."""
        if self._keep_weights:
            self._run.weights.append(session.run(self._variables))

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Requests the loss."""
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Records the loss, the time and the weights."""
        self._run.losses.append(float(run_values.results))
        self._run.moments.append(time.perf_counter())
        if self._keep_weights:
            self._run.weights.append(run_context.session.run(self._variables))
        self._on_step()
