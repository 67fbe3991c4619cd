"""A callback of ``fit`` that saves a training in the middle of an epoch, and continues it there."""

from __future__ import annotations

import numbers
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tf_condacc._accumulators.base import ConditionalAccumulatorBase
from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc.keras._accumulation import accumulation_of
from tf_condacc.keras._replacements import Replacements

# Objects of these types in attributes of a model are saved beside its variables.
_OTHERS = (tf.Module, tf.random.Generator, ConditionalAccumulatorBase, GradientAccumulator)


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves a training with its accumulated gradients, and continues it after a restart.

    It saves a ``tf.train.Checkpoint`` of the model, its optimizers, what
    `tf_condacc.keras.accumulate_gradients` has accumulated, the epoch and the batch. The optimizers
    are those in attributes of the model and those that accumulate. Variables, random generators,
    accumulators and ``tf.Module`` objects in attributes are saved as well. Made again by the next
    run of the program, it restores the last checkpoint. The training then ends with the same
    weights as one that nothing has stopped, to the last bit, if its data come in the same order and
    its operations are deterministic. A process may be killed at any time, also while it saves.

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
            each epoch as well, and with "epoch" there are no others.
        max_to_keep: Number of checkpoints to keep.

    Attributes:
        initial_epoch: The epoch in which the training continues, which ``fit`` needs; 0 if there is
            no checkpoint.
        initial_batch: The number of the batches of this epoch that were trained before.

    Raises:
        ValueError: The model has not been built or compiled, or `save_freq` is neither "epoch" nor
            a number of at least 1. The checkpoint is that of another model or optimizer, or has
            accumulated gradients and the model accumulates none; the model is then unchanged, but
            for modules, random generators and accumulators of which some are missing. ``fit``
            raises it if it does not continue where the checkpoint was saved.
        tf.errors.InvalidArgumentError: The checkpoint is that of another accumulation, such as one
            with another number of replicas.
    """

    def __init__(
        self,
        model: keras.Model,
        directory: str | os.PathLike[str],
        save_freq: int | Literal["epoch"],
        max_to_keep: int = 2,
    ) -> None:
        super().__init__()
        self._title = f"TrainingCheckpoint of model '{model.name}'"
        if not model.built or not model.compiled:
            raise ValueError(
                f"{self._title} expects a model that has been built and compiled, but it has not "
                f"been {'compiled' if model.built else 'built'}."
            )
        number: Any = sys.maxsize if save_freq == "epoch" else save_freq
        if not isinstance(number, numbers.Real) or number < 1:
            raise ValueError(
                f"{self._title} expects save_freq to be 'epoch' or a number of batches of at least "
                f"1, got {save_freq!r}."
            )
        self._save_freq: Any = number
        self._position = tf.Variable([0, 0], dtype=tf.int64, trainable=False)  # Epoch and batch.
        self._epoch = 0
        self._num_done = 0  # Batches of the epoch, also those that are only read.
        self._num_to_read = 0  # Batches of the epoch that are read, and not trained again.
        self._is_restored = False  # Whether no fit has reached the restored batch yet.
        self._is_used = False  # Whether a fit has begun with this callback.
        self._reading = Replacements()  # Of the functions of a model whose next batch is read.
        self._accumulation = accumulation_of(model)
        self._unbuilt: list[keras.Optimizer] = []
        self._manager = self._restored(model, os.fspath(directory), max_to_keep)
        self.initial_epoch, self.initial_batch = self._position.numpy().tolist()

    def _restored(
        self, model: keras.Model, directory: str, max_to_keep: int
    ) -> tf.train.CheckpointManager:
        """Returns what saves checkpoints, after it has restored the last one, if there is one."""
        if not model.optimizer.built:
            with model.distribute_strategy.scope():
                model.optimizer.build(model.trainable_variables)
        accumulation = self._accumulation
        optimizers = [] if accumulation is None else accumulation._options.optimizers
        found = _parts_of([model, model.optimizer, *optimizers])
        self._unbuilt = [
            each for each in found if isinstance(each, keras.Optimizer) and not each.built
        ]
        # Variables are saved one by one, because TensorFlow's checkpoints of Keras models lack the
        # states of random generators, such as those of dropout, and what is in lists.
        variables = [each for each in found if isinstance(each, tf.Variable)]
        others = [each for each in found if isinstance(each, _OTHERS)]
        parts = {"variables": variables, "others": others, "position": self._position}
        if accumulation is not None:
            parts["accumulation"] = accumulation._accumulators
        checkpoint = tf.train.Checkpoint(**parts)
        manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep)
        if manager.latest_checkpoint is not None:
            path = manager.latest_checkpoint
            title = f"{self._title} cannot restore '{path}'"
            has_accumulated = _check(path, title, variables, accumulation is not None)
            _restore_others(path, title, others)
            manager.restore_or_initialize()
            if accumulation is not None:
                accumulation._is_restored |= has_accumulated
            self._is_restored = True
        return manager

    def on_train_begin(self, logs: Any = None) -> None:
        """Checks that what was restored is still there."""
        if self._is_restored and self._is_used:
            raise ValueError(
                f"{self._title} cannot continue in epoch {self.initial_epoch} after "
                f"{self.initial_batch} batches: an earlier fit with this callback ended by an "
                "error before it got there, and the model may have changed since. Make the "
                "TrainingCheckpoint again, which restores the checkpoint."
            )
        self._is_used = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Checks that the first epoch is the restored one."""
        self._epoch, self._num_done, self._num_to_read = epoch, 0, 0
        if not self._is_restored:
            return
        if epoch != self.initial_epoch:
            raise ValueError(
                f"{self._title} expects that fit begins with epoch {self.initial_epoch} of the "
                f"restored checkpoint, got {epoch}. Pass initial_epoch=callback.initial_epoch to "
                "fit."
            )
        num_steps = self.model.steps_per_execution
        if self.initial_batch % num_steps != 0:
            raise ValueError(
                f"{self._title} expects steps_per_execution that divides the {self.initial_batch} "
                f"batches of epoch {epoch} that were trained before, got {num_steps}. Compile the "
                "model with the earlier steps_per_execution."
            )
        self._num_to_read = self.initial_batch
        self._is_restored = self._num_to_read > 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Lets the next batches be read only if they were trained before."""
        if self._num_done >= self._num_to_read:
            self._is_restored = False
            return
        model = self.model

        def read(iterator: Iterator[Any]) -> Any:
            # Each call is replaced anew, so that an error leaves the model with its own function.
            self._reading.restore()
            data = next(iterator)
            if self._num_done == 0:
                self._make_accumulators(data)
            for _ in range(model.steps_per_execution - 1):
                next(iterator, None)  # The last steps of an epoch may have fewer batches.
            return {}

        def make(make_train_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            # Every fit begins with this call, also one after a fit that ended before it has read.
            self._reading.restore()
            return make_train_function(*args, **kwargs)

        self._reading.replace_method(model, "make_train_function", make)
        self._reading.replace(model, "train_function", read)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves a checkpoint if it is time for one."""
        # Keras versions differ in which of several batches they name.
        before, self._num_done = self._num_done, self._num_done + self.model.steps_per_execution
        is_read_only = self._num_done <= self._num_to_read
        if not is_read_only and self._num_done // self._save_freq > before // self._save_freq:
            self._save(self._epoch, self._num_done)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves a checkpoint, from which the next epoch begins."""
        self._is_restored = False
        self._save(epoch + 1, 0)

    def _save(self, epoch: int, batch: int) -> None:
        for optimizer in self._unbuilt:
            if optimizer.built:
                raise ValueError(
                    f"{self._title} does not have the variables of optimizer '{optimizer.name}', "
                    "which was built after this callback. Call the optimizer's build() before, "
                    "with the variables that it trains."
                )
        if self._accumulation is not None:
            self._accumulation._accumulators.check_restored()
        self._position.assign([epoch, batch])
        self._manager.save()

    def _make_accumulators(self, data: Any) -> None:
        """Makes the accumulators, for an epoch of which no batch may be left to be trained.

        Accumulators are made, and restored, when a step is traced. The end of such an epoch needs
        them for its remainder, and saves them.
        """
        num_batches = self.params.get("steps")
        if self._accumulation is None or (num_batches or 0) > self.initial_batch:
            return
        model = self.model

        @tf.function
        def step(data: Any) -> Any:
            return model.distribute_strategy.run(model.train_step, args=(data,))

        step.get_concrete_function(data)


def _parts_of(roots: Sequence[keras.Model | keras.Optimizer]) -> list[Any]:
    """Returns what a training may change, each object once and in the same order in every run.

    These are the attributes of layers, what is in lists and dictionaries among them, and the
    variables of layers and optimizers.

    Args:
        roots: The model and optimizers.
    """
    parts: list[Any] = list(roots)
    seen: dict[int, Any] = {}
    for part in parts:  # The list grows meanwhile.
        if isinstance(part, keras.Variable):
            part = part.value
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, keras.Layer):
            parts += [*part.variables, vars(part)]
        elif isinstance(part, keras.Optimizer):
            parts += part.variables
        elif isinstance(part, (list, tuple)):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
    return list(seen.values())


def _check(path: str, title: str, variables: Sequence[Any], accumulates: bool) -> bool:
    """Returns whether a checkpoint has accumulated gradients, and checks that it fits a model.

    TensorFlow itself restores a part of the variables without an error.

    Raises:
        ValueError: The checkpoint is that of another model.
    """
    reader = tf.train.load_checkpoint(path)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    num_saved = sum(name.startswith("variables/") for name in shapes)
    if num_saved != len(variables):
        raise ValueError(
            f"{title}: the model and its optimizers have {len(variables)} variables, but the "
            f"checkpoint has {num_saved}. It is that of another model or optimizer."
        )
    for number, variable in enumerate(variables):
        name = f"variables/{number}/.ATTRIBUTES/VARIABLE_VALUE"
        saved = f"{dtypes[name].name} {shapes[name]}"
        expected = f"{variable.dtype.name} {variable.shape.as_list()}"
        if saved != expected:
            raise ValueError(
                f"{title}: variable '{variable.name}' is {expected}, but {saved} in the "
                "checkpoint. It is that of another model or optimizer."
            )
    accumulated = [name for name in shapes if name.startswith("accumulation/")]
    if accumulated and not accumulates:
        raise ValueError(
            f"{title}: it contains accumulated gradients, but the model accumulates none. Call "
            "accumulate_gradients() before."
        )
    if not all(re.match(r"accumulation/optimizer_\d+/", name) for name in accumulated):
        raise ValueError(
            f"{title}: its accumulated gradients are those of another version of tf_condacc. "
            "Continue with that version, or begin the training anew in another directory."
        )
    return bool(accumulated)


def _restore_others(path: str, title: str, others: Sequence[Any]) -> None:
    """Restores the objects of a model that are not variables, and checks that none is missing.

    Raises:
        ValueError: The checkpoint has more objects, or lacks the state of some.
    """
    names = [name.split("/") for name in tf.train.load_checkpoint(path).get_variable_to_shape_map()]
    num_saved = max((int(name[1]) + 1 for name in names if name[0] == "others"), default=0)
    title += ": it is that of another model. Of modules, random generators and accumulators in "
    if num_saved > len(others):
        raise ValueError(f"{title}attributes, it has {num_saved}, but the model {len(others)}.")
    status = tf.train.Checkpoint(others=list(others)).read(path).expect_partial()
    try:
        if others:
            status.assert_existing_objects_matched()
    except AssertionError as error:
        raise ValueError(f"{title}attributes, it lacks some: {error}") from error
