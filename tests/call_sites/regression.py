"""A regression on integers, with the same training in NumPy, for tests of legacy call sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

RATE = 0.125
X = np.array([[1, 0], [0, 1], [1, 1], [2, -1], [-1, 1], [0, 2], [1, -1], [2, 0]], dtype=np.float32)
Y = np.array([8, 16, -8, 24, 0, 40, 16, -32], dtype=np.float32)


class Model(NamedTuple):
    """The tensors of the regression in the current graph.

    Attributes:
        x: The inputs: `[batch, 2] float32`.
        y: The labels: `[batch] float32`.
        weights: The variable: `[2] float32`.
        loss: Half the mean of the squared errors: `[] float32`.
        step: The global step: `[] int64`.
    """

    x: tf.Tensor
    y: tf.Tensor
    weights: Any
    loss: tf.Tensor
    step: Any


def new_model() -> Model:
    """Builds the regression; the weights begin with zeros."""
    x, y = v1.placeholder(tf.float32, [None, 2]), v1.placeholder(tf.float32, [None])
    weights = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * weights, axis=1) - y)) / 2
    return Model(x, y, weights, loss, v1.train.get_or_create_global_step())


def descent() -> Any:
    """Returns the optimizer that `trained` computes."""
    return v1.train.GradientDescentOptimizer(RATE)


def gradient(weights: np.ndarray, x: np.ndarray = X, y: np.ndarray = Y) -> np.ndarray:
    """Returns the gradient of the loss in NumPy. Every number is exact in float32."""
    return (x @ weights - y) @ x / len(x)


def trained(updates: int, batches: Iterable[tuple[np.ndarray, np.ndarray]] = ((X, Y),)) -> Any:
    """Returns the weights after updates by the mean gradient of the batches."""
    batches = list(batches)
    weights = np.zeros(2)
    for _ in range(updates):
        weights = weights - RATE * np.mean([gradient(weights, *each) for each in batches], axis=0)
    assert np.array_equal(weights, np.float32(weights))
    return weights


def parts(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the examples in as many batches."""
    return list(zip(np.split(X, count), np.split(Y, count), strict=True))
