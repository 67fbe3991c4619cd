"""The trainings that the tests of parity run in several setups."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc import parity

v1 = tf.compat.v1
STEPS = 3


def small_training(**changes: Any) -> parity.Training:
    """Returns a training with one batch."""
    arguments: dict[str, Any] = {
        "build": lambda: tf.Variable([1.0, 2.0], name="w"),
        "loss": lambda model, x, y: tf.reduce_mean(tf.linalg.matvec(x, model)),
        "optimizer": lambda: v1.train.GradientDescentOptimizer(0.5),
        "batches": [(np.float32([[1, 2], [3, 4]]), np.zeros([2]))],
    }
    return parity.Training(**(arguments | changes))


def descent() -> v1.train.Optimizer:
    return v1.train.GradientDescentOptimizer(0.5)


def momentum() -> v1.train.Optimizer:
    return v1.train.MomentumOptimizer(0.5, 0.9)


def lookups() -> dict[str, tf.Variable]:
    """Makes a table, whose gradients are sparse, and a vector, whose gradient is dense."""
    table = tf.Variable([[1.0, 2.0], [2.0, 0.0], [1.0, 1.0], [0.0, 2.0]], name="table")
    return {"table": table, "vector": tf.Variable([1.0, -1.0], name="vector")}


def products(model: dict[str, tf.Variable], rows: Any, factors: Any) -> tf.Tensor:
    """Returns a loss for each example; its updates are exact in float32 for some steps."""
    found = tf.reduce_sum(tf.gather(model["table"], rows), axis=1)
    return factors * tf.linalg.matvec(found, model["vector"])


def mean_of_products(model: dict[str, tf.Variable], rows: Any, factors: Any) -> tf.Tensor:
    return tf.reduce_mean(products(model, rows, factors))


def exact(**changes: Any) -> parity.Training:
    """Returns a training on integers. Repeated rows are in one half of the batch, or in both."""
    rows = np.array([[0, 1], [0, 0], [2, 1], [3, 2]])
    factors = np.float32([1, 2, -1, 3])
    arguments = {
        "build": lookups,
        "loss": mean_of_products,
        "optimizer": descent,
        "batches": [(rows, factors)] * STEPS,
    }
    return parity.Training(**(arguments | changes))


def sums() -> parity.Training:
    return exact(loss=lambda *given: tf.reduce_sum(products(*given)) / 4, reduction="sum")


def network_variables() -> dict[str, tf.Variable]:
    """Makes the variables of a small network, from random numbers that differ in each call."""
    return {
        "hidden": tf.Variable(tf.random.normal([4, 5]), name="hidden"),
        "output": tf.Variable(tf.random.normal([5, 3]), name="output"),
    }


def scores(model: dict[str, tf.Variable], points: Any, normalize: bool = False) -> tf.Tensor:
    hidden = tf.tanh(points @ model["hidden"])
    if normalize:
        mean, variance = tf.nn.moments(hidden, axes=[0])
        hidden = (hidden - mean) / tf.sqrt(variance + 1e-3)
    return hidden @ model["output"]


def cross_entropy(points_scores: tf.Tensor, classes: Any) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, points_scores))


def points_and_classes(steps: int = STEPS) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [
        (rng.normal(size=[8, 4]).astype(np.float32), rng.integers(0, 3, [8])) for _ in range(steps)
    ]


def rounded(**changes: Any) -> parity.Training:
    """Returns the training of a small network, whose updates are rounded."""
    arguments = {
        "build": network_variables,
        "loss": lambda model, points, classes: cross_entropy(scores(model, points), classes),
        "optimizer": momentum,
        "batches": points_and_classes(),
    }
    return parity.Training(**(arguments | changes))
