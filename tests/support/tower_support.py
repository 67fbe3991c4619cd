"""Small models with towers on virtual CPUs, whose gradients are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tf_condacc import estimator
from tf_condacc._towers import reduction

v1 = tf.compat.v1
ModeKeys = estimator.ModeKeys
SUM = v1.losses.Reduction.SUM
MAX_TOWERS = 8
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def cpus(number: int) -> list[str]:
    return [f"/CPU:{k}" for k in range(number)]


def new_session(graph: tf.Graph | None = None, **options: Any) -> v1.Session:
    """Returns a session with a virtual CPU for every tower that a test may use."""
    config = v1.ConfigProto(device_count={"CPU": MAX_TOWERS}, **options)
    return v1.Session(graph=graph, config=config)


@contextmanager
def sums_one_by_one(one_by_one: bool = True) -> Iterator[None]:
    """Makes towers add dense gradients one by one, even if they are small enough to add at once."""
    with pytest.MonkeyPatch.context() as patch:
        if one_by_one:
            patch.setattr(reduction, "_MAX_BYTES_AT_ONCE", -1)
        yield


@contextmanager
def initialized_session(**options: Any) -> Iterator[v1.Session]:
    with new_session(**options) as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        yield session


class Recording(v1.train.GradientDescentOptimizer):
    """Subtracts gradients, and records those that it is given."""

    def __init__(self, learning_rate: float = 1.0, name: str = "Recording"):
        super().__init__(learning_rate, use_locking=True, name=name)
        self.given: list[tuple[Any, Any]] = []

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads_and_vars = list(grads_and_vars)
        self.given += grads_and_vars
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)


def two_zeros(name: str = "w") -> tf.Variable:
    return v1.get_variable(name, initializer=[0.0, 0.0], use_resource=True)


def weighted_sum(name: str = "w") -> tf.Tensor:
    """Returns a loss whose gradient is always [1, 2]."""
    return tf.reduce_sum(two_zeros(name) * [1.0, 2.0])


def linear_model_fn(features, labels, mode):
    """Builds a model whose gradient is the mean of the features of the tower."""
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    predictions = tf.reduce_sum(features * w, axis=1)
    loss = tf.reduce_mean(predictions)
    step = v1.train.get_or_create_global_step()
    train = tf_condacc.TowerOptimizer(Recording).minimize(loss, global_step=step)
    return estimator.EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train)


def replicate(
    model_fn: Callable[..., Any],
    num_towers: int,
    features: Any,
    labels: Any = None,
    mode: str = ModeKeys.TRAIN,
    loss_reduction: str = SUM,
    devices: Sequence[str] | None = None,
    **more: Any,
) -> Any:
    """Returns the spec of a model with towers, in the current graph."""
    devices = devices or cpus(num_towers)
    replicated = tf_condacc.replicate_model_fn(model_fn, loss_reduction, devices=devices)
    return replicated(features, labels, mode, **more)


def trained(
    model_fn: Callable[..., Any], num_towers: int, features: Any, steps: int = 1, **more: Any
) -> list[Any]:
    """Returns the trainable variables after steps of a model with towers, in a graph of its own.

    Args:
      model_fn: The model.
      num_towers: Number of towers.
      features: Features, or None. An array is split like a tensor.
      steps: Number of steps.
      **more: Further arguments of `replicate`.
    """
    with tf.Graph().as_default():
        spec = replicate(model_fn, num_towers, features, **more)
        with initialized_session() as session:
            for _ in range(steps):
                session.run(spec.train_op)
            return session.run(v1.trainable_variables())


def sum_of(
    make_gradients: Sequence[Callable[[Any], Any]],
    shape: Sequence[int | None],
    dtype: Any = tf.float32,
) -> Any:
    """Returns the gradient that the optimizer gets for a variable, summed over the towers.

    Args:
      make_gradients: For each tower a function of the variable that returns its gradient, or None.
      shape: Shape of the variable.
      dtype: Data type of the variable.

    Returns:
      The sum, a tensor or IndexedSlices.
    """
    optimizer = Recording()
    makers = iter(make_gradients)

    def model_fn(features, labels, mode):
        variable = v1.get_variable(
            "v", dtype=dtype, initializer=tf.zeros(shape, dtype), use_resource=True
        )
        gradient = next(makers)(variable)
        train = tf_condacc.TowerOptimizer(optimizer).apply_gradients([(gradient, variable)])
        return estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train)

    replicate(model_fn, len(make_gradients), features=None)
    ((total, _),) = optimizer.given
    return total


def rows(indices: Sequence[int], values: Any, shape: Sequence[int], dtype: Any = tf.float32) -> Any:
    """Returns a sparse gradient."""
    return tf.IndexedSlices(
        tf.constant(values, dtype), tf.constant(indices, tf.int64), tf.constant(shape, tf.int64)
    )


def to_dense(value: Any, shape: Sequence[int]) -> np.ndarray:
    """Returns a gradient that a session has computed as an array."""
    if not hasattr(value, "indices"):
        return np.asarray(value)
    total = np.zeros(shape, value.values.dtype)
    np.add.at(total, value.indices, value.values)
    return total
