"""Training from micro-batches, with GradientAccumulator and with Keras' own accumulation.

Each side has a process, because its peak memory is measured. Keras is imported there only.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import tensorflow as tf

from condacc_bench.implementations import Implementation
from condacc_bench.memory import reset_peak, status_bytes
from condacc_bench.scales import SyncModel

NUM_MICRO_BATCHES = 4
_COLUMNS = 64  # Of the embedding.
_MIB = 2**20


class MicroBatches:
    """A process that trains a number of updates in each round.

    The peak memory is that of all rounds so far, beyond the memory before the first gradient.

    Args:
      implementation: With our implementation the process trains with GradientAccumulator, and with
          TensorFlow's with ``gradient_accumulation_steps`` of Keras.
      model: The model.
      num_updates: Number of updates in a round.
    """

    def __init__(self, implementation: Implementation, model: SyncModel, num_updates: int) -> None:
        self._num_updates = num_updates
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tensorflow"])
        self._connection, theirs = context.Pipe()
        arguments = (implementation.name == "condacc", model, theirs)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.measure()  # This traces the function.

    def measure(self) -> dict[str, float]:
        self._connection.send(self._num_updates)
        return self._connection.recv()

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(is_ours: bool, model: SyncModel, connection: Connection) -> None:
    """Trains as many updates as it is told, and answers with the metrics, again and again."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    network, inputs, targets = _make(model)
    reset_peak()
    before = status_bytes("VmRSS")
    step = _step(is_ours, network)
    while True:
        num_steps = connection.recv() * NUM_MICRO_BATCHES
        start = time.perf_counter()
        for _ in range(num_steps):
            step(inputs, targets)
        seconds = time.perf_counter() - start
        peak = max(status_bytes("VmHWM") - before, 1) / _MIB
        connection.send({"steps/s": num_steps / seconds, "peak, MiB": peak})


def _make(model: SyncModel) -> tuple[Any, tf.Tensor, tf.Tensor]:
    """Returns a network and a batch for it."""
    import keras

    keras.utils.set_random_seed(1)
    dense = [keras.layers.Dense(model.hidden, activation="relu") for _ in range(model.layers)]
    if model.embedding:
        inputs = tf.random.uniform([model.batch, 8], 0, model.embedding, tf.int32)
        first = [keras.layers.Embedding(model.embedding, _COLUMNS), keras.layers.Flatten()]
    else:
        inputs = tf.random.normal([model.batch, model.hidden])
        first = []
    network = keras.Sequential(
        [keras.Input(inputs.shape[1:], dtype=inputs.dtype.name), *first, *dense]
    )
    return network, inputs, tf.random.normal([model.batch, model.hidden])


def _step(is_ours: bool, network: Any) -> Callable[[tf.Tensor, tf.Tensor], Any]:
    """Returns the function of a micro-batch."""
    import keras

    import tf_condacc

    variables = network.trainable_variables
    own = None if is_ours else NUM_MICRO_BATCHES
    optimizer = keras.optimizers.SGD(1e-3, gradient_accumulation_steps=own)
    if is_ours:
        accumulator = tf_condacc.GradientAccumulator(variables, NUM_MICRO_BATCHES)
    optimizer.build(variables)

    @tf.function
    def step(inputs: tf.Tensor, targets: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(inputs) - targets) ** 2)
        gradients = tape.gradient(loss, variables)
        if is_ours:
            accumulator.apply_gradients(optimizer, gradients)
        else:
            optimizer.apply(gradients, variables)

    return step
