"""The same training by a ``tf.distribute.MirroredStrategy``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc.examples.digits.data import Examples
from tf_condacc.examples.towers import model
from tf_condacc.examples.towers.runs import Run, Settings

v1 = tf.compat.v1


def use_virtual_devices(number: int) -> None:
    """Splits the CPU. Before anything is computed eagerly, and once in a process."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    virtual = [tf.config.LogicalDeviceConfiguration() for _ in range(number)]
    tf.config.set_logical_device_configuration(cpu, virtual)


def train(
    num_replicas: int,
    settings: Settings,
    batches: Sequence[Examples],
    start: Mapping[str, np.ndarray],
) -> Run:
    """Trains without batch normalization, from given weights on.

    Args:
      num_replicas: on so many logical CPUs, between which each batch is divided.
      settings: learning rate.
      batches: one for each step.
      start: the initial weights.
    """
    # Collective reductions remember for good how many devices there were the first time.
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
        optimizer.apply_gradients(zip(gradients, variables, strict=True))  # their sum
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
