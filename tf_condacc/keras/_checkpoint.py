"""A callback of ``fit`` that saves a training in the middle of an epoch, and continues it there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_condacc.keras._accumulation import accumulation_of


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves a training with its accumulated gradients, and continues it after a restart.

    It saves a ``tf.train.Checkpoint`` of the model, its optimizer, what
    `tf_condacc.keras.accumulate_gradients` has accumulated, the epoch and the batch. Made again by
    the next run of the program, it restores the last one. The training then ends with the same
    weights as one that nothing has stopped, to the last bit, if its data come in the same order and
    its operations are deterministic. A process may be killed at any time, also while it saves.

    ``keras.callbacks.BackupAndRestore`` saves the weights and the optimizer alone, begins an
    interrupted epoch again, and loses a remainder that is carried into the next epoch.

    Example:
        >>> import keras, tempfile
        >>> import tf_condacc.keras
        >>> model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
        >>> model.compile("sgd", loss="mse")
        >>> accumulation = tf_condacc.keras.accumulate_gradients(model, num_micro_batches=4)
        >>> data = tf.data.Dataset.from_tensor_slices((tf.ones([64, 1]), tf.ones([64, 1]))).batch(8)
        >>> folder = tempfile.mkdtemp()
        >>> saved = tf_condacc.keras.TrainingCheckpoint(model, folder, save_freq=3)
        >>> history = model.fit(
        ...     data, initial_epoch=saved.initial_epoch, epochs=2, callbacks=[saved], verbose=0
        ... )
        >>> tf_condacc.keras.TrainingCheckpoint(model, folder, save_freq=3).initial_epoch
        2

    ``fit`` reads the batches of an interrupted epoch again, and trains with those that are left.
    Data must therefore come in the same order whenever the same epoch begins: arrays need
    ``shuffle=False``. The metrics of such an epoch are those of its remaining batches. What other
    callbacks keep is not saved.

    Args:
        model: A built and compiled model, in its final form: layers that are made trainable or
            frozen later are not. It accumulates gradients, or not.
        directory: Folder of the checkpoints, of this training alone.
        save_freq: Number of batches from one checkpoint to the next. There is one at the end of
            each epoch as well.
        max_to_keep: Number of checkpoints to keep.

    Attributes:
        initial_epoch: The epoch in which the training continues, which ``fit`` needs; 0 if there is
            no checkpoint.
        initial_batch: The number of the batches of this epoch that were trained before.

    Raises:
        ValueError: The model has not been built or compiled, or `save_freq` is lower than 1.
        tf.errors.InvalidArgumentError: The checkpoint is that of another training, such as one with
            another number of replicas.
    """

    def __init__(
        self,
        model: keras.Model,
        directory: str | os.PathLike[str],
        save_freq: int,
        max_to_keep: int = 2,
    ) -> None:
        super().__init__()
        if not model.built or not model.compiled:
            what = "compiled" if model.built else "built"
            raise ValueError(
                f"TrainingCheckpoint expects a model that has been built and compiled, but model "
                f"'{model.name}' has not been {what}."
            )
        if save_freq < 1:
            raise ValueError(
                f"TrainingCheckpoint expects save_freq of at least 1, got {save_freq}."
            )
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._save_freq = save_freq
        self._position = tf.Variable([0, 0], dtype=tf.int64, trainable=False)  # Epoch and batch.
        self._epoch = 0
        self._num_done = 0  # Batches of the epoch, also those that are only read.
        self._accumulation = accumulation_of(model)
        # The variables are saved one by one: checkpoints of Keras models lack the states of random
        # generators, such as those of dropout.
        variables = [*model.variables, *model.optimizer.variables]
        parts = {"variables": [each.value for each in variables], "position": self._position}
        if self._accumulation is not None:
            parts["accumulation"] = self._accumulation.state
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(**parts), os.fspath(directory), max_to_keep
        )
        if self._manager.latest_checkpoint is not None:
            self._manager.restore_or_initialize()
            if self._accumulation is not None:
                self._accumulation.keep_in_next_fit()
        self.initial_epoch, self.initial_batch = self._position.numpy().tolist()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Lets the batches that were trained before be read only, in the first epoch."""
        self._epoch, self._num_done = epoch, 0
        if epoch != self.initial_epoch or self.initial_batch == 0:
            return
        model, train = self.model, self.model.train_function

        def read(iterator: Iterator[Any]) -> Any:
            if self._num_done >= self.initial_batch:
                model.train_function = train
                return train(iterator)
            for _ in range(min(model.steps_per_execution, self.initial_batch - self._num_done)):
                next(iterator)
            return {}

        model.train_function = read

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves a checkpoint if it is time for one."""
        before, self._num_done = self._num_done, batch + 1
        is_read_only = self._epoch == self.initial_epoch and self._num_done <= self.initial_batch
        if not is_read_only and self._num_done // self._save_freq > before // self._save_freq:
            self._save(self._epoch, self._num_done)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves a checkpoint, from which the next epoch begins."""
        self._save(epoch + 1, 0)

    def _save(self, epoch: int, batch: int) -> None:
        self._position.assign([epoch, batch])
        self._manager.save()
