"""Training from micro-batches: GradientAccumulator, Keras' own accumulation, and by hand.

Each way has a process, because its peak memory is measured. Keras is imported there only.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import tensorflow as tf

from condacc_bench.cases.memory import reset_peak, status_bytes
from condacc_bench.scales import SyncModel

NUM_MICRO_BATCHES = 4
OURS, KERAS = "condacc", "Keras"
_COLUMNS = 64  # Columns of the embedding.
_MIB = 2**20

# Accumulates gradients, and updates the variables after the last micro-batch.
_Apply = Callable[[list[Any]], Any]


class MicroBatches:
    """A process that trains a number of updates in each round.

    The peak memory is that of all rounds so far, beyond the memory of the model. What TensorFlow
    takes while it traces does not count.

    Args:
      way: One of `WAYS`.
      model: The model.
      num_updates: Number of updates in a round.
    """

    def __init__(self, way: str, model: SyncModel, num_updates: int) -> None:
        self._num_updates = num_updates
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tensorflow"])
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(way, model, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.norm: float = self._connection.recv()  # The norm of the variables after one update.

    def measure(self) -> dict[str, float]:
        self._connection.send(self._num_updates)
        return self._connection.recv()

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(way: str, model: SyncModel, connection: Connection) -> None:
    """Trains for one update, then for as many as requested, and answers with the metrics.

    A tiny model is trained first, so that the peak memory is that of gradients, and not that of
    TensorFlow's code.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    tiny, *batch = _make(_tiny(model))
    warm_up = _step(way, tiny)
    for _ in range(NUM_MICRO_BATCHES):
        warm_up(*batch)
    network, inputs, targets = _make(model)
    _free_unused()
    before = status_bytes("VmRSS")
    step = _step(way, network)
    step.get_concrete_function(inputs, targets)
    _free_unused()  # Tracing leaves much memory behind.
    reset_peak()
    for _ in range(NUM_MICRO_BATCHES):
        step(inputs, targets)
    connection.send(sum(float(tf.norm(each.value)) for each in network.trainable_variables))
    while True:
        num_steps = connection.recv() * NUM_MICRO_BATCHES
        start = time.perf_counter()
        for _ in range(num_steps):
            step(inputs, targets)
        seconds = time.perf_counter() - start
        peak = max(status_bytes("VmHWM") - before, 1) / _MIB
        connection.send({"steps/s": num_steps / seconds, "peak, MiB": peak})


def _tiny(model: SyncModel) -> SyncModel:
    return dataclasses.replace(model, hidden=4, batch=3, embedding=min(model.embedding, 10))


def _free_unused() -> None:
    """Returns unused memory to the system, so that it does not count."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


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


def _step(way: str, network: Any) -> Any:
    """Returns the function of a micro-batch."""
    variables = network.trainable_variables
    apply = WAYS[way](variables)

    @tf.function
    def step(inputs: tf.Tensor, targets: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(inputs) - targets) ** 2)
        apply(tape.gradient(loss, variables))

    return step


def _optimizer(variables: list[Any], **options: Any) -> Any:
    import keras

    optimizer = keras.optimizers.SGD(1e-3, **options)
    optimizer.build(variables)
    return optimizer


def _with_tf_condacc(variables: list[Any]) -> _Apply:
    import tf_condacc

    optimizer = _optimizer(variables)
    accumulator = tf_condacc.GradientAccumulator(variables, NUM_MICRO_BATCHES)
    return lambda gradients: accumulator.apply_gradients(optimizer, gradients)


def _with_keras(variables: list[Any]) -> _Apply:
    optimizer = _optimizer(variables, gradient_accumulation_steps=NUM_MICRO_BATCHES)
    return lambda gradients: optimizer.apply(gradients, variables)


def _with_variables(variables: list[Any]) -> _Apply:
    return _by_hand(variables, lambda buffer, gradient: buffer.assign_add(gradient))


def _with_scatter_add(variables: list[Any]) -> _Apply:
    def add(buffer: tf.Variable, gradient: Any) -> None:
        if isinstance(gradient, tf.IndexedSlices):
            buffer.scatter_add(gradient)
        else:
            buffer.assign_add(gradient)

    return _by_hand(variables, add)


def _by_hand(variables: list[Any], add: Callable[[tf.Variable, Any], Any]) -> _Apply:
    """Accumulates in a variable for each variable, as training loops without a library do."""
    optimizer = _optimizer(variables)
    buffers = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in variables]
    count = tf.Variable(0, trainable=False)

    def update() -> None:
        optimizer.apply([buffer / NUM_MICRO_BATCHES for buffer in buffers], variables)
        for buffer in buffers:
            buffer.assign(tf.zeros_like(buffer))

    def apply(gradients: list[Any]) -> None:
        for buffer, gradient in zip(buffers, gradients, strict=True):
            add(buffer, gradient)
        complete = count.assign_add(1) % NUM_MICRO_BATCHES == 0
        tf.cond(complete, update, lambda: None)

    return apply


# The ways to accumulate. Each takes variables, and returns a function of their gradients.
WAYS: dict[str, Callable[[list[Any]], _Apply]] = {
    OURS: _with_tf_condacc,
    KERAS: _with_keras,
    "tf.Variable": _with_variables,
    "scatter_add": _with_scatter_add,
}


def rivals(has_sparse_gradients: bool) -> list[str]:
    """Returns the ways to compare ours with. Without sparse gradients, two ways are the same."""
    found = [way for way in WAYS if way != OURS]
    return found if has_sparse_gradients else found[:-1]
