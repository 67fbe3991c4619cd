"""Training, evaluating and predicting with towers."""

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

from tf_condacc.estimator import Estimator, RunConfig, replicate_model_fn
from tf_condacc.examples.digits import data
from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers.model import model_fn

v1 = tf.compat.v1

_WARM_UP = 5  # steps that are not timed


@dataclass(frozen=True)
class Settings:
    """What to train and how.

    Attributes:
      towers: numbers of towers to train with, one after another.
      steps: of each training.
      compared_steps: of each training without batch normalization, whose weights are compared.
    """

    towers: tuple[int, ...] = (1, 2, 4)
    steps: int = 300
    compared_steps: int = 40
    batch_size: int = 64
    learning_rate: float = 0.05
    seed: int = 1


@dataclass
class Run:
    """What came of one training.

    Attributes:
      title: what trained.
      losses: of each step.
      moments: when each step ended, in seconds.
      accuracy: on the test examples, as `evaluate` says.
      predicted: the same, of the classes that `predict` says.
      weights: the variables after each step, if they were asked for.
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
    """A number of towers in words."""
    return "1 tower" if num_towers == 1 else f"{num_towers} towers"


def batches_of(examples: Examples, settings: Settings) -> Iterator[Examples]:
    """The batches of a training, without end: the same ones whatever trains."""
    return data.batches(examples, settings.batch_size, settings.seed)


def train_and_test(
    num_towers: int,
    settings: Settings,
    train: Examples,
    test: Examples,
    on_step: Callable[[], None] = lambda: None,
) -> Run:
    """Trains with batch normalization, then evaluates and predicts with as many towers."""
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
    """Trains without batch normalization, and keeps the weights of each step."""
    run = Run(title(num_towers))
    with tempfile.TemporaryDirectory() as folder:
        estimator = new_estimator(num_towers, settings, folder, batch_norm=False)
        watch = _Watch(run, num_towers, keep_weights=True)
        estimator.train(lambda: _dataset(lambda: batches), hooks=[watch], steps=len(batches))
    return run


def new_estimator(num_towers: int, settings: Settings, folder: str, batch_norm: bool) -> Estimator:
    """An Estimator of the model, on as many virtual CPUs as there are towers."""
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
    """Keeps what there is to know of each step."""

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
        """Finds the variables."""
        self._variables = {v.op.name: v for v in v1.trainable_variables()}

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Keeps the weights that the training starts with."""
        if self._keep_weights:
            self._run.weights.append(session.run(self._variables))

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Asks for the loss."""
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the loss, the time and the weights."""
        self._run.losses.append(float(run_values.results))
        self._run.moments.append(time.perf_counter())
        if self._keep_weights:
            self._run.weights.append(run_context.session.run(self._variables))
        self._on_step()
