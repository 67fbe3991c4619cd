"""The records of trainings with towers, and the comparison of the weights that they learn."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.estimator import Estimator
from tf_condacc.examples.common import data, network
from tf_condacc.examples.common.records import Run

# The highest tolerated difference of a weight after all steps. Rounding errors of a single step are
# much smaller.
TOLERANCE = 1e-4
_Weights = dict[str, np.ndarray]


class Difference(NamedTuple):
    """The difference between the weights of a run and those of one tower on the whole batch.

    Attributes:
        title: Name of the run.
        largest: The largest difference of a weight before the first step and after each step.
    """

    title: str
    largest: list[float]

    @property
    def is_tolerable(self) -> bool:
        """True if the weights differ only by rounding errors."""
        return max(self.largest) <= TOLERANCE


class Comparison(NamedTuple):
    """The differences of all runs, and the largest change of a weight in the training."""

    differences: list[Difference]
    moved: float


class Watch(v1.train.SessionRunHook):
    """A hook that records each step of a training.

    Args:
        num_towers: Number of towers.
        on_step: Function that is called after each step.
        keep_weights: Whether to record the weights.

    Attributes:
        run: The record.
    """

    def __init__(
        self,
        num_towers: int,
        on_step: Callable[[], None] = lambda: None,
        keep_weights: bool = False,
    ):
        self.run = Run("1 tower" if num_towers == 1 else f"{num_towers} towers")
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
            self.run.weights.append(session.run(self._variables))

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Requests the loss."""
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Records the loss, the time and the weights."""
        self.run.losses.append(float(run_values.results))
        self.run.moments.append(time.perf_counter())
        if self._keep_weights:
            self.run.weights.append(run_context.session.run(self._variables))
        self._on_step()


def use_virtual_devices(number: int) -> None:
    """Splits the CPU into virtual devices.

    Must be called once per process, before TensorFlow executes an operation.
    """
    (cpu,) = tf.config.list_physical_devices("CPU")
    virtual = [tf.config.LogicalDeviceConfiguration() for _ in range(number)]
    tf.config.set_logical_device_configuration(cpu, virtual)


def compare(
    numbers: Sequence[int],
    batches: Sequence[data.Examples],
    new_estimator: Callable[[int, str], Estimator],
    new_optimizer: Callable[[], v1.train.Optimizer],
) -> Comparison:
    """Trains in all ways, from the same initial weights and with the same batches.

    Args:
        numbers: Numbers of towers and of replicas.
        batches: A batch for each step.
        new_estimator: Function that returns the Estimator with a number of towers and a folder.
        new_optimizer: Function that returns the optimizer of a ``tf.distribute.MirroredStrategy``.
    """

    def with_towers(number: int) -> Run:
        watch = Watch(number, keep_weights=True)
        with tempfile.TemporaryDirectory() as folder:
            estimator = new_estimator(number, folder)
            estimator.train(lambda: data.dataset(batches), hooks=[watch], steps=len(batches))
        return watch.run

    whole = with_towers(1)
    start = whole.weights[0]
    differences = []
    for number in numbers:
        if number > 1:
            for run in (with_towers(number), _mirrored(number, batches, start, new_optimizer)):
                pairs = zip(run.weights, whole.weights, strict=True)
                largest = [_distance(ours, theirs) for ours, theirs in pairs]
                differences.append(Difference(run.title, largest))
    return Comparison(differences, _distance(start, whole.weights[-1]))


def _mirrored(
    number: int,
    batches: Sequence[data.Examples],
    start: _Weights,
    new_optimizer: Callable[[], v1.train.Optimizer],
) -> Run:
    """Trains with a MirroredStrategy, and splits each batch among as many logical CPUs."""
    # The default, collective reduction, requires the same number of devices in all strategies of a
    # process.
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{k}" for k in range(number)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        weights = {name: tf.Variable(value, name=name) for name, value in start.items()}
        optimizer = new_optimizer()

    def layer_weights(layer: str, shape: list[int]) -> tuple[tf.Variable, tf.Variable]:
        return weights[f"{layer}/kernel"], weights[f"{layer}/bias"]

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = network.small_scores(images, layer_weights)
            loss = network.mean_loss(scores, labels) / number
        variables = list(weights.values())
        gradients = tape.gradient(loss, variables)
        # In a strategy, this applies the sum of the gradients of all replicas.
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function
    def step(images: Any, labels: Any) -> tf.Tensor:
        losses = strategy.run(replica_step, (images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def split(whole: np.ndarray) -> Any:
        parts = np.split(whole, number)
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    run = Run(f"MirroredStrategy, {number}", weights=[dict(start)])
    for batch in batches:
        run.losses.append(float(step(split(batch.images), split(batch.labels))))
        run.weights.append({name: variable.numpy() for name, variable in weights.items()})
    return run


def _distance(one: _Weights, other: _Weights) -> float:
    return max(float(np.max(np.abs(one[name] - other[name]))) for name in other)
