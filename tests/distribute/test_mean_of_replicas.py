"""Tests of the mean over the micro-batches of all replicas, on four logical CPUs.

They share a process of their own, because logical CPUs are made before TensorFlow is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.distribute.training import use_cpus
from tests.processes.isolated import isolated

pytestmark = isolated()
CPUS = [f"CPU:{number}" for number in range(4)]
ROWS = 5
RANDOM = np.random.default_rng(0)
EXAMPLES = RANDOM.normal(size=[24, 2]).astype(np.float32)
WORDS = RANDOM.integers(0, ROWS, [24])


@pytest.fixture(scope="module", autouse=True)
def four_cpus():
    use_cpus(4)


def strategy_of(num_replicas: int) -> tf.distribute.Strategy:
    """Returns a strategy; that of one replica is the default strategy."""
    if num_replicas == 1:
        return tf.distribute.get_strategy()
    # Collective operations of several strategies in one process would be mistaken for each other.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(CPUS[:num_replicas], cross_device_ops=reduction)


def per_replica(strategy: tf.distribute.Strategy, values: Sequence[Any]) -> Any:
    """Returns one of the values for each replica, in replica order."""
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.convert_to_tensor(values[context.replica_id_in_sync_group])
    )


class Model:
    """A dense weight and an embedding, which are trained with SGD of rate 1.

    Args:
        num_replicas: Number of replicas.
        arguments: Further arguments of the GradientAccumulator.
    """

    def __init__(self, num_replicas: int, num_micro_batches: int, **arguments: Any) -> None:
        import keras

        self.strategy = strategy_of(num_replicas)
        with self.strategy.scope():
            self.variables = [tf.Variable(tf.ones([2])), tf.Variable(tf.ones([ROWS, 2]))]
            self.optimizer = keras.optimizers.SGD(1.0)
            self.accumulator = tf_condacc.GradientAccumulator(
                self.variables, num_micro_batches, **arguments
            )

    def gradients(self, examples: tf.Tensor, words: tf.Tensor) -> list[Any]:
        """Returns the gradients of the mean loss, divided by the number of replicas."""
        with tf.GradientTape() as tape:
            rows = tf.gather(self.variables[1], words)
            losses = tf.reduce_sum((examples * self.variables[0] - rows) ** 2, 1)
            loss = tf.reduce_mean(losses) / self.strategy.num_replicas_in_sync
        return tape.gradient(loss, self.variables)

    def apply(self, examples: tf.Tensor, words: tf.Tensor, **arguments: Any) -> tf.Tensor:
        gradients = self.gradients(examples, words)
        return self.accumulator.apply_gradients(self.optimizer, gradients, **arguments)

    def run(self, function: Callable[..., Any], parts: Sequence[Sequence[slice]]) -> None:
        """Calls a function on replicas, with the examples and words of each micro-batch's parts."""
        step = tf.function(
            lambda *arguments: self.strategy.run(function, arguments),
            reduce_retracing=True,
        )
        for micro_batch in parts:
            arguments = [
                per_replica(self.strategy, [data[part] for part in micro_batch])
                for data in (EXAMPLES, WORDS)
            ]
            step(*arguments)

    def step(self) -> list[np.ndarray]:
        """Returns how far the variables are from where they began."""
        values = [self.strategy.experimental_local_results(v)[-1] for v in self.variables]
        return [1.0 - value.numpy() for value in values]


def consecutive(sizes: Sequence[Sequence[int]]) -> list[list[slice]]:
    """Returns slices of the given sizes that follow each other."""
    ends = np.cumsum([0, *np.ravel(sizes)])
    slices = [slice(begin, end) for begin, end in zip(ends, ends[1:], strict=False)]
    return np.reshape(np.array(slices, object), np.shape(sizes)).tolist()


def assert_equal(steps: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
    for one, other in zip(steps, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def step_of_one_batch() -> list[np.ndarray]:
    model = Model(1, 1)
    model.run(model.apply, [[slice(0, 24)]])
    return model.step()


@pytest.mark.parametrize(
    "sizes", [[[7], [17]], [[3, 9], [8, 4]], [[1, 2, 3, 4], [5, 6, 2, 1]]], ids=["1", "2", "4"]
)
def test_weighted_micro_batches_of_replicas_equal_one_batch(sizes):
    model = Model(len(sizes[0]), num_micro_batches=2)

    def replica(examples: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        return model.apply(examples, words, weight=tf.size(words))

    model.run(replica, consecutive(sizes))
    assert_equal(model.step(), step_of_one_batch())


def test_takes_of_replicas_add_up_to_the_weighted_mean():
    model = Model(2, num_micro_batches=2)

    def replica(examples: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        gradients = model.gradients(examples, words)
        return model.accumulator.accumulate(gradients, weight=tf.size(words))

    model.run(replica, consecutive([[3, 9], [8, 4]]))
    parts = model.strategy.run(lambda: model.accumulator.take()[0])
    total = sum(model.strategy.experimental_local_results(parts))
    np.testing.assert_allclose(total, step_of_one_batch()[0], rtol=1e-5)
