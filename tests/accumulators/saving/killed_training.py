"""A training that saves its state every few micro-batches, and may be killed at any time.

It is run as a module with the arguments FORM FOLDER MOMENT SECS. At its end, it prints a digest of
the weights. It kills itself at a moment of its saves, which are counted from 1, or some time later:
odd ones are before the state of a folder names a new checkpoint, even ones are afterwards.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1
from tensorflow.python.checkpoint import checkpoint_management

import tf_condacc
from tests.support.waiting import work

NUM_MICRO_BATCHES = 5  # For an update.
NUM_STEPS = 60
SAVE_EVERY = 2
ROWS = 50


def gradients_of(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a dense gradient, and the values and indices of a sparse one."""
    draw = np.random.default_rng(number)
    scale = np.float32(10.0 ** (number % 4))
    dense, rows = (scale * draw.normal(size=size).astype(np.float32) for size in (64, (9, 4)))
    return dense, rows, draw.integers(0, ROWS, size=9)


def digest_of(weights: Iterable[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(each.tobytes() for each in weights)).hexdigest()


class Model(tf.Module):
    """Two variables, their optimizer and the number of micro-batches so far."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.table = tf.Variable(tf.zeros([64])), tf.Variable(tf.zeros([ROWS, 4]))
        variables = [self.dense, self.table]
        self.optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        self.optimizer.build(variables)
        self.accumulator = tf_condacc.GradientAccumulator(variables, NUM_MICRO_BATCHES)
        self.number = tf.Variable(0, dtype=tf.int64)

    def train(self, dense: tf.Tensor, rows: tf.Tensor, indices: tf.Tensor) -> None:
        slices = tf.IndexedSlices(rows, indices)
        self.accumulator.apply_gradients(self.optimizer, [dense, slices], weight=rows[0, 0] ** 2)
        self.number.assign_add(1)


def train_eagerly(folder: str, is_function: bool = False) -> str:
    model = Model()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), folder, 2)
    manager.restore_or_initialize()
    train = tf.function(model.train) if is_function else model.train
    while int(model.number) < NUM_STEPS:
        train(*map(tf.constant, gradients_of(int(model.number))))
        if int(model.number) % SAVE_EVERY == 0:
            manager.save()
    return digest_of([model.dense.numpy(), model.table.numpy()])


def train_in_function(folder: str) -> str:
    return train_eagerly(folder, is_function=True)


def train_in_session(folder: str) -> str:
    with tf.Graph().as_default():
        number = v1.train.get_or_create_global_step()
        weights = v1.get_variable("weights", [64], initializer=v1.zeros_initializer())
        table = v1.get_variable("table", [ROWS, 4], initializer=v1.zeros_initializer())
        dense = tf_condacc.ConditionalAccumulator(tf.float32, [64], name="dense")
        sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [ROWS, 4], name="sparse")
        inputs = [v1.placeholder(each.dtype) for each in gradients_of(0)]
        gradient, rows, indices = inputs
        gradient.set_shape([64])
        rows.set_shape([9, 4])
        slices = tf.IndexedSlices(rows, indices)
        contributor = number % NUM_MICRO_BATCHES
        applied = [
            dense.apply_contribution(gradient, dense.global_step(), contributor),
            sparse.apply_indexed_slices_contribution(slices, sparse.global_step(), contributor),
        ]
        with tf.control_dependencies(applied):
            apply = tf.group(number.assign_add(1))
        taken = sparse.take_indexed_slices_grad(NUM_MICRO_BATCHES)
        update = tf.group(
            weights.assign_sub(dense.take_grad(NUM_MICRO_BATCHES)),
            v1.scatter_sub(table, taken.indices, taken.values),
        )
        count = sparse.num_accumulated()
        for saveable in tf_condacc.saveables():
            v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=folder,
            save_checkpoint_steps=SAVE_EVERY,
            save_checkpoint_secs=None,
            log_step_count_steps=None,
            save_summaries_steps=0,
        ) as session:
            while True:
                done, accumulated = session.run([number, count])
                if accumulated == NUM_MICRO_BATCHES:
                    session.run(update)
                elif done == NUM_STEPS:
                    return digest_of(session.run([weights, table]))
                else:
                    session.run(apply, dict(zip(inputs, gradients_of(done), strict=True)))


def train_in_fit(folder: str) -> str:
    import keras

    import tf_condacc.keras

    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()  # A GPU would multiply in any order.
    layers = [keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([8]), *layers])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    tf_condacc.keras.accumulate_gradients(model, NUM_MICRO_BATCHES, remainder="carry")
    draw = np.random.default_rng(0)
    x, y = (draw.normal(size=[4 * NUM_STEPS // 3, size]).astype(np.float32) for size in (8, 1))
    saved = tf_condacc.keras.TrainingCheckpoint(model, folder, SAVE_EVERY)
    model.fit(
        x,
        y,
        batch_size=4,
        shuffle=False,
        epochs=3,
        initial_epoch=saved.initial_epoch,
        callbacks=[saved],
        verbose=0,
    )
    return digest_of(model.get_weights())


FORMS = {
    "eager": train_eagerly,
    "function": train_in_function,
    "session": train_in_session,
    "fit": train_in_fit,
}


def kill_after(secs: float) -> None:
    work(secs)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(chosen: int, secs: float) -> None:
    """Lets this process be killed some time after a moment of its saves, or at once if it is 0."""
    moments = itertools.count(1)
    update = checkpoint_management.update_checkpoint_state_internal

    def pass_moment() -> None:
        if next(moments) == chosen:
            kill = threading.Thread(target=kill_after, args=[secs], daemon=True)
            kill.start()
            if secs == 0:
                kill.join()

    def update_and_count(*args: Any, **kwargs: Any) -> None:
        pass_moment()
        update(*args, **kwargs)
        pass_moment()

    checkpoint_management.update_checkpoint_state_internal = update_and_count


def main() -> None:
    form, folder, moment, secs = sys.argv[1:]
    kill_at(int(moment), float(secs))
    print("ended", FORMS[form](folder), flush=True)


if __name__ == "__main__":
    main()
