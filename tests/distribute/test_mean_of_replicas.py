"""Tests of the mean over the micro-batches of all replicas, on four logical CPUs.

They share a process of their own, because logical CPUs are made before TensorFlow is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.distribute.training import raised, use_cpus
from tests.processes.isolated import isolated
from tests.support.wide import all_but_wide

pytestmark = isolated()
CPUS = [f"CPU:{number}" for number in range(4)]
ROWS = 5
RANDOM = np.random.default_rng(0)
EXAMPLES = RANDOM.normal(size=[24, 2]).astype(np.float32)
WORDS = RANDOM.integers(0, ROWS, [24])
DATA = EXAMPLES, WORDS


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
                per_replica(self.strategy, [data[part] for part in micro_batch]) for data in DATA
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
    "sizes",
    all_but_wide([[[7], [17]], [[3, 9], [8, 4]], [[1, 2, 3, 4], [5, 6, 2, 1]]], [[[3, 9], [8, 4]]]),
    ids=["1", "2", "4"],
)
def test_weighted_micro_batches_of_replicas_equal_one_batch(sizes):
    model = Model(len(sizes[0]), num_micro_batches=2)

    def replica(examples: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        return model.apply(examples, words, weight=tf.size(words))

    model.run(replica, consecutive(sizes))
    assert_equal(model.step(), step_of_one_batch())


def test_remainder_of_weighted_micro_batches_of_replicas_equals_one_batch():
    model = Model(2, num_micro_batches=5)

    def replica(examples: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        return model.apply(examples, words, weight=tf.size(words))

    model.run(replica, consecutive([[3, 9], [8, 4]]))
    apply_remainder = lambda: model.accumulator.apply_remainder(model.optimizer)  # noqa: E731
    updated = tf.function(lambda: model.strategy.run(apply_remainder))()
    assert all(bool(one) for one in model.strategy.experimental_local_results(updated))
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


CLIPPINGS = [{"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"clipvalue": 0.25}]


@pytest.mark.parametrize(
    "clipping", all_but_wide(CLIPPINGS, CLIPPINGS[1:2]), ids=lambda clipping: next(iter(clipping))
)
def test_replicas_clip_the_mean_of_all_once(clipping):
    """One, two and four replicas make the same step, in which no limit is exceeded."""
    steps = []
    for number in (1, 2, 4):
        model = Model(number, num_micro_batches=2)
        size = 24 // 2 // number

        def replica(examples: tf.Tensor, words: tf.Tensor, model: Model = model) -> tf.Tensor:
            return model.apply(examples, words, **clipping)

        model.run(replica, consecutive([[size] * number] * 2))
        steps.append(model.step())
    for one in steps[1:]:
        assert_equal(one, steps[0])
    norms = [float(np.linalg.norm(each)) for each in steps[0]]
    if "clipnorm" in clipping:
        np.testing.assert_allclose(norms, 0.5, rtol=1e-5)
    elif "global_clipnorm" in clipping:
        np.testing.assert_allclose(np.linalg.norm(norms), 0.5, rtol=1e-5)
    else:
        np.testing.assert_allclose([np.abs(each).max() for each in steps[0]], 0.25)


@pytest.mark.parametrize("name, limit", [("clipnorm", 0.5), ("global_clipnorm", 0.5)])
def test_keras_clips_the_mean_of_all_replicas_that_it_is_given(name, limit):
    import keras

    model = Model(2, num_micro_batches=1)
    with model.strategy.scope():
        model.optimizer = keras.optimizers.SGD(1.0, **{name: limit})
    model.run(model.apply, consecutive([[12, 12]]))
    truth = Model(1, num_micro_batches=1)
    ours = {"clipnorm": "clipnorm", "global_clipnorm": "global_clipnorm"}[name]
    truth.run(lambda *data: truth.apply(*data, **{ours: limit}), [[slice(0, 24)]])
    assert_equal(model.step(), truth.step())


def test_all_replicas_skip_a_micro_batch_that_one_cannot_use():
    model = Model(2, num_micro_batches=2, skip_non_finite=True)

    def replica(examples: tf.Tensor, words: tf.Tensor, bad: tf.Tensor) -> tf.Tensor:
        dense, sparse = model.gradients(examples, words)
        gradients = [dense + bad, sparse]
        return model.accumulator.apply_gradients(model.optimizer, gradients)

    step = tf.function(lambda *data: model.strategy.run(replica, data))
    values = model.strategy.experimental_local_results
    parts = [slice(0, 6), slice(6, 12), slice(12, 18), slice(18, 24)]
    updated = []
    for own, bad in [(parts[:2], np.nan), (parts[:2], 0.0), (parts[2:], np.inf), (parts[2:], 0.0)]:
        data = [per_replica(model.strategy, [each[part] for part in own]) for each in DATA]
        is_bad = per_replica(model.strategy, np.float32([0.0, bad]))
        updated.append([bool(one) for one in values(step(*data, is_bad))])
    assert updated == [[False] * 2, [False] * 2, [False] * 2, [True] * 2]
    assert_equal(model.step(), step_of_one_batch())
    assert int(model.accumulator.num_skipped()) == 2
    skipped = model.strategy.run(model.accumulator.num_skipped)
    assert [int(one) for one in values(skipped)] == [2, 2]


def test_count_of_micro_batches_can_be_asked_between_steps():
    model = Model(2, num_micro_batches=3)
    counts = []
    for _ in range(4):
        counts.append(int(model.accumulator.num_accumulated()))
        with model.strategy.scope():
            assert int(model.accumulator.num_accumulated()) == counts[-1]
        model.run(model.apply, consecutive([[2, 2]]))
    assert counts == [0, 1, 2, 0]
    with strategy_of(2).scope():
        assert "is used outside of a function" in raised(model.accumulator.num_accumulated)


def test_restored_checkpoint_discards_what_replicas_accumulated(tmp_path):
    model = Model(2, num_micro_batches=2)
    with model.strategy.scope():
        checkpoint = tf.train.Checkpoint(v=model.variables, accumulator=model.accumulator)
        path = checkpoint.save(str(tmp_path / "saved"))
        model.run(model.apply, consecutive([[1, 3]]))
        checkpoint.restore(path).assert_consumed()
    assert int(model.accumulator.num_accumulated()) == 0
    model.run(model.apply, consecutive([[6, 6], [6, 6]]))
    assert_equal(model.step(), step_of_one_batch())


def test_deep_copy_under_a_strategy_works_under_it():
    model = Model(2, num_micro_batches=2)
    model.run(model.apply, consecutive([[1, 3]]))
    model.variables, model.accumulator = copy.deepcopy([model.variables, model.accumulator])
    model.optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    model.run(model.apply, consecutive([[6, 6], [6, 6]]))
    assert_equal(model.step(), step_of_one_batch())
