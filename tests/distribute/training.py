"""A small Keras model, and its training from micro-batches under a strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.initial_values import seed_initial_values

CPUS = ["CPU:0", "CPU:1"]
NUM_ROWS = 50
_RANDOM = np.random.default_rng(0)
IDS = _RANDOM.integers(0, NUM_ROWS, [64, 3])
TARGETS = _RANDOM.normal(size=[64, 1]).astype(np.float32)
LEARNING_RATES = {"SGD": 0.1, "Adam": 0.01}


def use_cpus(number: int) -> None:
    """Makes logical CPUs; must be called before TensorFlow is used."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    one = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [one] * number)


def raised(call: Callable[[], Any]) -> str:
    """Returns the message of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("no error was raised")


def mirrored() -> tf.distribute.Strategy:
    """Returns a strategy of two replicas."""
    return tf.distribute.MirroredStrategy(CPUS)


def make_model() -> Any:
    """Returns a model of an embedding and two dense layers, with the same weights each time."""
    import keras

    seed_initial_values()
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input([3], dtype="int32"),
            layers.Embedding(NUM_ROWS, 4),
            layers.Flatten(),
            layers.Dense(5, activation="tanh"),
            layers.Dense(1),
        ]
    )


def make_optimizer(name: str) -> Any:
    import keras

    return getattr(keras.optimizers, name)(LEARNING_RATES[name])


def gradients_of(model: Any, ids: Any, targets: Any, num_replicas: int = 1) -> list[Any]:
    """Returns the gradients of the mean squared error, divided by the number of replicas."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(ids) - targets) ** 2) / num_replicas
    return tape.gradient(loss, model.trainable_variables)


def big_batch(optimizer: str, steps: int) -> list[np.ndarray]:
    """Returns the weights after training with all data in each step, without accumulation.

    The rows of the embedding's gradient are made unique, because Adam of Keras gives wrong results
    for repeated rows.
    """
    model, optimizer = make_model(), make_optimizer(optimizer)
    for _ in range(steps):
        rows, *others = gradients_of(model, IDS, TARGETS)
        dense = tf.math.unsorted_segment_sum(rows.values, rows.indices, NUM_ROWS)
        present = tf.constant(np.unique(IDS))
        unique = tf.IndexedSlices(tf.gather(dense, present), present, rows.dense_shape)
        optimizer.apply_gradients(zip([unique, *others], model.trainable_variables, strict=True))
    return model.get_weights()


def largest_difference(weights: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(weights, others, strict=True))


class Training:
    """Training under a strategy, in which micro-batches make an update.

    Args:
        strategy: The strategy.
        optimizer: Name of the optimizer.
        num_micro_batches: Number of micro-batches, which together are all data.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, optimizer: str, num_micro_batches: int
    ) -> None:
        self._strategy = strategy
        self._num_micro_batches = num_micro_batches
        with strategy.scope():
            self._model, self._optimizer = make_model(), make_optimizer(optimizer)
            self.accumulator = tf_condacc.GradientAccumulator(
                self._model.trainable_variables, num_micro_batches
            )

    @property
    def weights(self) -> list[np.ndarray]:
        return self._model.get_weights()

    @property
    def num_updates(self) -> int:
        return int(self._optimizer.iterations.numpy())

    def run(self, steps: int, in_function: bool = True) -> None:
        """Makes updates, each from all data."""
        self.train(range(steps * self._num_micro_batches), in_function)

    def train(self, numbers: Iterable[int], in_function: bool = True) -> None:
        """Trains with some micro-batches, whose numbers count on from update to update."""

        def on_replicas(ids: Any, targets: Any) -> Any:
            return self._strategy.run(self._replica, args=(ids, targets))

        step = tf.function(on_replicas) if in_function else on_replicas
        for number in numbers:
            updated = step(self._part(IDS, number), self._part(TARGETS, number))
            is_last = (number + 1) % self._num_micro_batches == 0
            for each in self._strategy.experimental_local_results(updated):
                assert bool(each) == is_last

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns a checkpoint of all that an update changes."""
        with self._strategy.scope():
            self._optimizer.build(self._model.trainable_variables)
        variables = [*self._model.trainable_variables, *self._optimizer.variables]
        return tf.train.Checkpoint(
            variables=[each.value for each in variables], accumulator=self.accumulator
        )

    def _replica(self, ids: Any, targets: Any) -> Any:
        gradients = gradients_of(self._model, ids, targets, self._strategy.num_replicas_in_sync)
        assert isinstance(gradients[0], tf.IndexedSlices)
        return self.accumulator.apply_gradients(self._optimizer, gradients)

    def _part(self, data: np.ndarray, number: int) -> Any:
        """Returns each replica's part of a micro-batch."""
        micro_batch = np.split(data, self._num_micro_batches)[number % self._num_micro_batches]
        parts = np.split(micro_batch, self._strategy.num_replicas_in_sync)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )
