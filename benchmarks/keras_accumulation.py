#!/usr/bin/env python3
"""Compares micro-batches in ``fit`` of Keras with one large batch, in cases that users report.

Prints the table of docs/guides/keras.md: for ``gradient_accumulation_steps`` of Keras optimizers
and for ``tf_condacc.keras.accumulate_gradients``, by how much weights differ from those that plain
Keras learns from batches that are four times as large.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # If the package is not installed.

import keras
import numpy as np
import tensorflow as tf

from tf_condacc.keras import accumulate_gradients

NUM_MICRO_BATCHES, BATCH_SIZE, NUM_ROWS, TOLERANCE = 4, 8, 30, 1e-5
_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=[96, 6]).astype(np.float32)
Y = np.tanh(X.sum(axis=1, keepdims=True))
IDS = _RANDOM.integers(1, NUM_ROWS, [96, 5])
PADDED = np.where(np.arange(5) < _RANDOM.integers(1, 6, [96, 1]), IDS, 0)
LABELS = _RANDOM.normal(size=[96, 5, 1]).astype(np.float32)
WAYS = ("large batches", "gradient_accumulation_steps", "accumulate_gradients")
layers, optimizers = keras.layers, keras.optimizers


class DenseEmbedding(layers.Embedding):
    """An embedding with dense gradients, for which Adam of Keras is right."""

    def call(self, inputs: Any) -> Any:
        return keras.ops.matmul(keras.ops.one_hot(inputs, self.input_dim), self.embeddings)


def dense(is_truth: bool) -> keras.Model:
    hidden = layers.Dense(7, activation="tanh")
    return keras.Sequential([keras.Input([6]), hidden, layers.Dense(1, dtype="float32")])


def embedding(is_truth: bool) -> keras.Model:
    rows = (DenseEmbedding if is_truth else layers.Embedding)(NUM_ROWS, 3)
    return keras.Sequential(
        [keras.Input([5], dtype="int32"), rows, layers.Flatten(), layers.Dense(1)]
    )


def tagger(is_truth: bool) -> keras.Model:
    rows = layers.Embedding(NUM_ROWS, 3, mask_zero=True)
    first = [keras.Input([5], dtype="int32"), rows]
    return keras.Sequential([*first, layers.SimpleRNN(4, return_sequences=True), layers.Dense(1)])


def sgd(**arguments: Any) -> keras.Optimizer:
    return optimizers.SGD(0.1, momentum=0.9, **arguments)


def scheduled(**arguments: Any) -> keras.Optimizer:
    return optimizers.SGD(optimizers.schedules.ExponentialDecay(0.2, 2, 0.5), **arguments)


def loss_scaling(**arguments: Any) -> keras.Optimizer:
    return optimizers.LossScaleOptimizer(sgd(**arguments), initial_scale=512.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A training. `interrupt` is called with the model after the first of two calls of ``fit``."""

    name: str
    model: Callable[[bool], keras.Model] = dense
    optimizer: Callable[..., keras.Optimizer] = sgd
    x: np.ndarray = dataclasses.field(default_factory=lambda: X)
    y: np.ndarray = dataclasses.field(default_factory=lambda: Y)
    loss: Any = "mse"
    dtype_policy: str = "float32"
    num_replicas: int = 1
    tolerance: float = TOLERANCE
    interrupt: Callable[[keras.Model], keras.Model] = lambda model: model


def saved_and_loaded(model: keras.Model) -> keras.Model:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"keras_accumulation_{os.getpid()}.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    path.unlink()
    return loaded


CASES = (
    Case("12 equal micro-batches in an epoch"),
    Case("Embedding, SGD", embedding, x=IDS),
    Case("Embedding, Adam", embedding, lambda **each: optimizers.Adam(0.02, **each), x=IDS),
    Case("`MirroredStrategy`, 2 replicas", num_replicas=2),
    Case("Smaller last batch, and a remainder of 2 micro-batches", x=X[:76], y=Y[:76]),
    Case("Masked sequences of unequal lengths", tagger, x=PADDED, y=LABELS),
    Case(
        "Loss with the reduction `sum`",
        optimizer=lambda **each: optimizers.SGD(0.002, **each),
        loss=keras.losses.MeanSquaredError(reduction="sum"),
    ),
    Case(
        "`mixed_float16` with loss scaling",
        optimizer=loss_scaling,
        dtype_policy="mixed_float16",
        tolerance=1e-3,
    ),
    Case("Clipping (`global_clipnorm`)", optimizer=lambda **each: sgd(global_clipnorm=0.1, **each)),
    Case("Learning rate schedule", optimizer=scheduled),
    Case(
        "Moving average of the weights (`use_ema`)",
        optimizer=lambda **each: sgd(use_ema=True, **each),
    ),
    Case("Saved and loaded (`.keras`) between two calls of `fit`", interrupt=saved_and_loaded),
)


def train(case: Case, way: str) -> list[np.ndarray]:
    """Returns the weights after two calls of ``fit`` with two epochs each."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(case.dtype_policy)
    is_truth = way == "large batches"
    strategy = tf.distribute.get_strategy()
    if case.num_replicas > 1 and not is_truth:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(case.num_replicas)])
    steps = {"gradient_accumulation_steps": NUM_MICRO_BATCHES} if way == WAYS[1] else {}
    with strategy.scope():
        model = case.model(is_truth)
        model.compile(optimizer=case.optimizer(**steps), loss=case.loss)
    for is_first in (True, False):
        model = model if is_first else case.interrupt(model)
        if way == WAYS[2]:
            accumulate_gradients(model, NUM_MICRO_BATCHES)
        batch_size = BATCH_SIZE * (NUM_MICRO_BATCHES if is_truth else 1)
        model.fit(case.x, case.y, batch_size=batch_size, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def results(case: Case) -> Iterator[str]:
    """Yields what to print for Keras and for tf_condacc."""
    truth = train(case, WAYS[0])
    for way in WAYS[1:]:
        try:
            weights = train(case, way)
        except Exception as error:
            reason = "merge_call" if "merge_call" in str(error) else str(error)[:60]
            yield f"{type(error).__name__}: {reason}"
            continue
        difference = max(float(np.abs(a - b).max()) for a, b in zip(weights, truth, strict=True))
        yield "same" if difference < case.tolerance else f"differs by {difference:.1g}"


def peak_memory(way: str) -> None:
    """Prints the peak memory of training an embedding of 400,000 rows, beyond that of the model."""
    number = 1 if way == WAYS[0] else NUM_MICRO_BATCHES
    steps = {"gradient_accumulation_steps": number} if way == WAYS[1] else {}
    rows = layers.Embedding(400_000, 64)
    model = keras.Sequential([keras.Input([8], dtype="int32"), rows, layers.Flatten()])
    model.add(layers.Dense(1))
    model.compile(optimizer=optimizers.SGD(0.1, **steps), loss="mse")
    if way == WAYS[2]:
        accumulate_gradients(model, number)
    ids = _RANDOM.integers(0, 400_000, [64 * 16, 8])
    before = status("VmRSS")
    model.fit(ids, np.ones([len(ids), 1]), batch_size=64, verbose=0)
    print(f"{(status('VmHWM') - before) / 1024:.0f} MiB")


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    print(f"| Case | `{WAYS[1]}` | `{WAYS[2]}` |\n|---|---|---|")
    for case in CASES:
        print(f"| {case.name} | {' | '.join(results(case))} |", flush=True)
    memory = [
        subprocess.check_output([sys.executable, __file__, way], text=True).strip()
        for way in WAYS[1:]
    ]
    print(f"| Memory of `fit` with an embedding of 400,000 x 64 | {' | '.join(memory)} |")


if __name__ == "__main__":
    peak_memory(sys.argv[1]) if sys.argv[1:] else main()
