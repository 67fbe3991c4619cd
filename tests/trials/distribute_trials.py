"""Trials of accumulators under strategies of one process, with Keras 3, on two logical CPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.distribute_support import (
    CPUS,
    Training,
    big_batch,
    largest_difference,
    mirrored,
    raised,
    use_two_cpus,
)
from tests.support.trial_runs import Trials

TRIALS = Trials()
STRATEGIES: dict[str, Callable[[], tf.distribute.Strategy]] = {
    "default": tf.distribute.get_strategy,
    "mirrored": mirrored,
    "one_device": lambda: tf.distribute.OneDeviceStrategy(CPUS[1]),
    "central_storage": lambda: tf.distribute.experimental.CentralStorageStrategy(CPUS, CPUS[0]),
}


@TRIALS.add_each(name=STRATEGIES)
def micro_batches_equal_one_big_batch(ours: Any, name: str) -> None:
    use_two_cpus()
    training = Training(STRATEGIES[name](), "Adam", num_micro_batches=4)
    training.run(steps=3)
    assert training.num_updates == 3
    assert largest_difference(training.weights, big_batch("Adam", steps=3)) < 1e-6


@TRIALS.add
def eager_micro_batches_on_replicas_equal_one_big_batch(ours: Any) -> None:
    training = Training(mirrored(), "SGD", num_micro_batches=2)
    training.run(steps=2, in_function=False)
    assert largest_difference(training.weights, big_batch("SGD", steps=2)) < 1e-6


@TRIALS.add
def fit_with_a_custom_train_step_equals_one_big_batch(ours: Any) -> None:
    import keras

    from tests.support.distribute_support import IDS, TARGETS, make_model

    class Accumulating(keras.Model):
        supports_jit = False  # XLA cannot compile the accumulators.

        def __init__(self, layers: Any, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.layers_of_model = layers

        def call(self, x: Any) -> Any:
            return self.layers_of_model(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                predictions = self(x, training=True)
                loss = self.compute_loss(x, y, predictions)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.accumulator.apply_gradients(self.optimizer, gradients)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss * tf.distribute.get_strategy().num_replicas_in_sync)
            return self.compute_metrics(x, y, predictions)

    for strategy in (tf.distribute.get_strategy(), mirrored()):
        with strategy.scope():
            model = Accumulating(make_model())
            model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mse"])
            model.build(IDS.shape)
            model.accumulator = tf_condacc.GradientAccumulator(model.trainable_variables, 4)
        data = tf.data.Dataset.from_tensor_slices((IDS, TARGETS)).batch(16, drop_remainder=True)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        history = model.fit(data.with_options(options), epochs=3, shuffle=False, verbose=0).history
        np.testing.assert_allclose(history["loss"], history["mse"], rtol=1e-5)
        assert largest_difference(model.get_weights(), big_batch("Adam", steps=3)) < 1e-6


@TRIALS.add
def remainder_is_taken_at_the_end(ours: Any) -> None:
    strategy = mirrored()
    with strategy.scope():
        weights = tf.Variable([0.0])
        accumulator = tf_condacc.GradientAccumulator([weights], 4)
    accumulate = tf.function(lambda: strategy.run(lambda: accumulator.accumulate([tf.ones([1])])))
    for _ in range(3):
        accumulate()
    (mean,) = strategy.run(lambda: accumulator.take(num_required=1))
    assert [float(x[0]) for x in strategy.experimental_local_results(mean)] == [1.0, 1.0]


@TRIALS.add
def gradient_accumulator_that_is_made_before_the_scope_is_used_on_replicas(ours: Any) -> None:
    use_two_cpus()
    accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 1)
    accumulate = lambda: accumulator.accumulate([tf.ones([1])])  # noqa: E731
    assert all(STRATEGIES["mirrored"]().run(accumulate).values)
    assert "but is now used under the default strategy" in raised(accumulate)


@TRIALS.add
def replicas_share_an_accumulator_that_is_made_outside(ours: Any) -> None:
    """The take is in cross-replica context, where it sees the gradients of all replicas."""
    strategy = mirrored()
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [2])
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [4, 2])

    def apply() -> None:
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        value = tf.fill([2], tf.cast(number, tf.float32) + 1)
        dense.apply_grad(value, local_step=dense.global_step())
        sparse.apply_grad([number], value[tf.newaxis], local_step=sparse.global_step())

    @tf.function
    def step() -> Any:
        strategy.run(apply)
        return dense.take_grad(2), sparse.take_indexed_slices_grad(2)

    for _ in range(2):
        mean, rows = step()
        assert mean.numpy().tolist() == [1.5, 1.5]
        assert rows.indices.numpy().tolist() == [0, 1]
        assert rows.values.numpy()[:, 0].tolist() == [1.0, 2.0]


@TRIALS.add
def merge_call_and_updates_take_what_replicas_applied(ours: Any) -> None:
    strategy = mirrored()
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
    with strategy.scope():
        variable = tf.Variable(1.0)

    def merge(strategy: tf.distribute.Strategy, value: Any) -> None:
        for one in strategy.experimental_local_results(value):
            accumulator.apply_grad(one, local_step=accumulator.global_step())
        mean = accumulator.take_grad(2)
        strategy.extended.update(variable, lambda v, mean: v.assign_add(mean), args=(mean,))

    def replica() -> None:
        context = tf.distribute.get_replica_context()
        value = tf.cast(context.replica_id_in_sync_group, tf.float32) * 4.0
        context.merge_call(merge, args=(value,))

    strategy.run(replica)
    tf.function(lambda: strategy.run(replica))()
    copies = [copy.numpy() for copy in strategy.experimental_local_results(variable)]
    np.testing.assert_array_equal(copies, [5.0, 5.0])
