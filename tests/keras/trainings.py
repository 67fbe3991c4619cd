"""Trainings of small Keras models with micro-batches, and with batches as large as all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from condacc import versions
from tests.support.initial_values import seed_initial_values

if versions.brings_keras2():
    pytest.skip("needs Keras 3; TensorFlow 2.15 brings Keras 2", allow_module_level=True)

from tf_condacc.keras import accumulate_gradients  # noqa: E402

NUM_MICRO_BATCHES = 4
BATCH_SIZE = 8
NUM_SAMPLES = 3 * NUM_MICRO_BATCHES * BATCH_SIZE + 12  # The last update is from 8 and 4 samples.
UPDATES_PER_EPOCH = 4
NUM_ROWS = 20  # Rows of embeddings.
EPOCHS = 2

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=[NUM_SAMPLES, 6]).astype(np.float32)
Y = np.tanh(X.sum(axis=1, keepdims=True))
CLASSES = _RANDOM.integers(0, 3, [NUM_SAMPLES])
IDS = _RANDOM.integers(1, NUM_ROWS, [NUM_SAMPLES, 5])
IDS[np.arange(5) >= _RANDOM.integers(1, 6, [NUM_SAMPLES, 1])] = 0  # Sequences of unequal lengths.
LABELS = _RANDOM.normal(size=[NUM_SAMPLES, 5, 1]).astype(np.float32)
WEIGHTS = _RANDOM.uniform(0.0, 2.0, [NUM_SAMPLES]).astype(np.float32)

layers = keras.layers


class DenseEmbedding(layers.Embedding):
    """An embedding with dense gradients, for which every optimizer of Keras is right."""

    def call(self, inputs: Any) -> Any:
        return keras.ops.matmul(keras.ops.one_hot(inputs, self.input_dim), self.embeddings)


class AddLoss(layers.Layer):
    """Adds the mean of its squared inputs to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(inputs**2))
        return inputs


class Subclassed(keras.Model):
    """A model without variables before its first batch."""

    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__()
        self.hidden = layers.Dense(7, activation="tanh", kernel_regularizer="l2")
        self.last = layers.Dense(num_outputs)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.hidden(inputs))


class OwnStep(Subclassed):
    """A model with a `train_step` of its own, which calls `optimizer.apply`."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self(x, training=True) - y) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


class DecoratedStep(Subclassed):
    """A model whose `train_step` is a ``tf.function`` with a condition on a tensor."""

    @tf.function
    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self(x, training=True) - y) ** 2)
            if tf.math.is_finite(loss):
                loss /= self.distribute_strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": loss}


def sequential() -> keras.Model:
    return keras.Sequential(
        [keras.Input([6]), layers.Dense(7, activation="tanh"), layers.Dense(1, dtype="float32")]
    )


def functional() -> keras.Model:
    inputs = keras.Input([6])
    hidden = layers.Dense(
        7,
        "tanh",
        kernel_regularizer="l2",
        activity_regularizer=None if versions.sums_activity_losses() else "l1",
    )(inputs)
    return keras.Model(inputs, layers.Dense(1, dtype="float32")(AddLoss()(hidden)))


def embedding(is_dense: bool = False) -> keras.Model:
    kind = DenseEmbedding if is_dense else layers.Embedding
    inputs = keras.Input([5], dtype="int32")
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(kind(NUM_ROWS, 3)(inputs))))


def tagger(kind: type[keras.Model] = keras.Model) -> keras.Model:
    """Returns a model with an output for each entry of a sequence, and a mask."""
    inputs = keras.Input([5], dtype="int32")
    rows = layers.Embedding(NUM_ROWS, 3, mask_zero=True)(inputs)
    return kind(inputs, layers.Dense(1)(layers.Dense(4, activation="tanh")(rows)))


class OwnLoss(keras.Model):
    """A model whose loss is a mean over all entries, whatever its mask."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None
    ) -> Any:
        return keras.ops.mean((keras.ops.convert_to_tensor(y_pred) - y) ** 2)


class LossOfKeras(keras.Model):
    """A model that calls Keras' own loss in `compute_loss`."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return 2.0 * super().compute_loss(*args, **kwargs)


def two_outputs() -> keras.Model:
    inputs = keras.Input([6])
    hidden = layers.Dense(7, activation="tanh")(inputs)
    outputs = {"a": layers.Dense(1, name="a")(hidden), "b": layers.Dense(3, name="b")(hidden)}
    return keras.Model(inputs, outputs)


def sgd() -> keras.Optimizer:
    return keras.optimizers.SGD(0.05, momentum=0.9)


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        model: Makes the model.
        optimizer: Makes the optimizer.
        x: The inputs.
        y: The targets.
        compile: Further arguments of ``compile``.
        fit: Further arguments of ``fit``.
        dtype_policy: Name of the policy of data types.
        truth: Makes the model that is trained without accumulation; by default as `model`.
        tolerance: How much weights may differ.
        compares_loss: Whether the reported losses and metrics are the same.
    """

    model: Callable[[], keras.Model] = functional
    optimizer: Callable[[], keras.Optimizer] = sgd
    x: np.ndarray = field(default_factory=lambda: X)
    y: Any = field(default_factory=lambda: Y)
    compile: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    dtype_policy: str = "float32"
    truth: Callable[[], keras.Model] | None = None
    tolerance: float = 1e-6
    compares_loss: bool = True


@dataclass(frozen=True)
class Trained:
    """A trained model and what ``fit`` reported."""

    model: keras.Model
    history: dict[str, list[float]]

    @property
    def weights(self) -> list[np.ndarray]:
        return self.model.get_weights()

    @property
    def num_updates(self) -> int:
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")


def compiled(case: Case, model: Callable[[], keras.Model], **arguments: Any) -> keras.Model:
    """Returns a compiled model, with the same weights each time.

    Args:
        case: The training for which the model is compiled.
        model: Makes the model.
        **arguments: Arguments of `compile` that replace those of the case.
    """
    seed_initial_values()
    made = model()
    given = {"loss": "mse", "metrics": ["mae"], **case.compile, **arguments}
    made.compile(optimizer=case.optimizer(), **given)
    return made


def fit(model: keras.Model, **arguments: Any) -> Any:
    given = {"batch_size": BATCH_SIZE, "shuffle": False, "verbose": 0}
    return model.fit(X, Y, **(given | arguments))


def num_updates(model: keras.Model) -> int:
    return int(model.optimizer.iterations.numpy())


def train(case: Case, model: keras.Model, batch_size: int) -> Trained:
    arguments = {"epochs": EPOCHS, "verbose": 0, "shuffle": False, **case.fit}
    return Trained(model, model.fit(case.x, case.y, batch_size=batch_size, **arguments).history)


def accumulating(case: Case, strategy: tf.distribute.Strategy | None = None) -> Trained:
    """Trains with micro-batches."""
    with dtype_policy(case.dtype_policy):
        with (strategy or tf.distribute.get_strategy()).scope():
            model = compiled(case, case.model)
        accumulate_gradients(model, NUM_MICRO_BATCHES)
        return train(case, model, BATCH_SIZE)


def plain(case: Case) -> Trained:
    """Trains with plain Keras on one device, with batches as large as all micro-batches.

    There are so few batches that they take less time eagerly than a function takes to be traced.
    """
    with dtype_policy(case.dtype_policy):
        model = compiled(case, case.truth or case.model, run_eagerly=True)
        return train(case, model, NUM_MICRO_BATCHES * BATCH_SIZE)


def largest_difference(some: list[np.ndarray], others: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(some, others, strict=True))


def assert_same(case: Case, ours: Trained, truth: Trained) -> None:
    start = compiled(case, case.truth or case.model)
    start(case.x[:1])
    moved = largest_difference(truth.weights, start.get_weights())
    assert moved > 30 * case.tolerance
    assert largest_difference(ours.weights, truth.weights) < case.tolerance
    assert ours.num_updates == truth.num_updates
    assert ours.history.keys() == truth.history.keys()
    for name in truth.history if case.compares_loss else ():
        np.testing.assert_allclose(
            ours.history[name], truth.history[name], rtol=30 * case.tolerance, err_msg=name
        )
