"""The training with a ``tf.distribute.MirroredStrategy``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers import model
from tf_condacc.examples.towers.runs import Run, Settings


def use_virtual_devices(number: int) -> None:
    """Splits the CPU into virtual devices.

    Must be called once per process, before TensorFlow executes an operation.
    """
    (cpu,) = tf.config.list_physical_devices("CPU")
    virtual = [tf.config.LogicalDeviceConfiguration() for _ in range(number)]
    tf.config.set_logical_device_configuration(cpu, virtual)


def train(
    num_replicas: int,
    settings: Settings,
    batches: Sequence[Examples],
    start: Mapping[str, np.ndarray],
) -> Run:
    """Trains without batch normalization.

    Args:
        num_replicas: Number of replicas, each on a logical CPU. Each batch is split among them.
        settings: The settings of the training.
        batches: A batch for each step.
        start: The initial weights.
    """
    # The default, collective reduction, requires the same number of devices in all strategies of a
    # process.
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{k}" for k in range(num_replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        weights = {name: tf.Variable(value, name=name) for name, value in start.items()}
        optimizer = v1.train.MomentumOptimizer(settings.learning_rate, model.MOMENTUM)

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = model.logits(images, lambda name, _: weights[name], lambda _, x: x)
            loss = model.mean_loss(scores, labels) / num_replicas
        variables = list(weights.values())
        gradients = tape.gradient(loss, variables)
        # In a strategy, this applies the sum of the gradients of all replicas.
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function
    def step(images: Any, labels: Any) -> tf.Tensor:
        losses = strategy.run(replica_step, (images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def current_weights() -> dict[str, np.ndarray]:
        return {name: variable.numpy() for name, variable in weights.items()}

    run = Run(f"MirroredStrategy, {num_replicas}", weights=[current_weights()])
    for batch in batches:
        parts = [
            strategy.experimental_distribute_values_from_function(
                lambda context, whole=whole: tf.constant(
                    np.split(whole, num_replicas)[context.replica_id_in_sync_group]
                )
            )
            for whole in (batch.images, batch.labels)
        ]
        run.losses.append(float(step(*parts)))
        run.moments.append(time.perf_counter())
        run.weights.append(current_weights())
    return run
