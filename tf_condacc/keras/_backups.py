"""What is accumulated, in checkpoints and beside the weights that Keras backs up."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc._tensorflow import Trackable

_LOG = logging.getLogger("tf_condacc")
_CHUNK = 1 << 24  # Bytes that are read at once.


class AccumulatedState(Trackable):
    """What a model has accumulated, as a part of checkpoints.

    Its children are the ``GradientAccumulator`` objects, which the first steps make. A checkpoint
    that was restored before is restored into each when it is made.

    Args:
        title: What messages call it.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._maybe_initialize_trackable()
        self._accumulators: dict[str, GradientAccumulator] = {}

    def add(self, name: str, accumulator: GradientAccumulator) -> None:
        """Adds an object, and restores it if a checkpoint waits for it."""
        self._accumulators[name] = accumulator
        self._handle_deferred_dependencies(name, accumulator)

    def clear(self) -> None:
        """Removes all objects."""
        self._accumulators.clear()

    def forget_restored(self) -> None:
        """Forgets what was restored for objects that have not been made."""
        self._deferred_dependencies.clear()

    def check_restored(self) -> None:
        """Warns if something was restored for objects that have not been made, and forgets it.

        The checkpoint that is about to be saved will not have it, and the one that has it may be
        deleted afterwards.
        """
        if self._deferred_dependencies:
            _LOG.warning(
                "%s: an optimizer has not been used since its accumulated gradients were restored. "
                "They are lost.",
                self._title,
            )
            self.forget_restored()

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        del args, kwargs
        return dict(self._accumulators)

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return self._accumulators.get(name)


class Backups:
    """Saves what is accumulated whenever ``BackupAndRestore`` saves weights, and restores it.

    The file of the weights stays that of Keras. The name of the checkpoint beside it contains a
    checksum of that file, so that the gradients are never added to other weights.

    Args:
        state: What is accumulated.
        title: What the warning calls it.

    Attributes:
        folders: The folders of the callbacks of the ``fit`` that is running.
    """

    def __init__(self, state: AccumulatedState, title: str) -> None:
        self._state = state
        self._title = title
        self.folders: set[str] = set()

    def begin(self, callbacks: Iterable[object]) -> None:
        """Notes the folders of the callbacks of a ``fit``."""
        self.folders = {
            os.path.dirname(os.path.join(each.backup_dir, ""))  # Without a "/" at its end.
            for each in callbacks
            if isinstance(each, keras.callbacks.BackupAndRestore)
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves what is accumulated, if a file of weights is in a callback's folder."""
        path = os.fspath(path)
        if os.path.dirname(path) not in self.folders:
            return
        self._state.check_restored()
        stem, folder = _stem(path, path), os.path.dirname(path)
        files = [os.path.join(folder, name) for name in tf.io.gfile.listdir(folder)]
        tf.train.Checkpoint(state=self._state).write(stem)
        kept = [f"{stem}."]
        previous = f"{path}.bkp"  # Where Keras keeps the weights before, if it is asked to.
        if tf.io.gfile.exists(previous):
            kept.append(f"{_stem(path, previous)}.")
        for file in files:
            if file.startswith(_prefix(path)) and not file.startswith(tuple(kept)):
                tf.io.gfile.remove(file)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Restores what was accumulated, if a file of weights is in a callback's folder."""
        path = os.fspath(path)
        if os.path.dirname(path) not in self.folders:
            return
        stem = _stem(path, path)
        if tf.io.gfile.exists(f"{stem}.index"):
            tf.train.Checkpoint(state=self._state).read(stem)
            return
        _LOG.warning(
            "%s: BackupAndRestore has restored '%s', with which no accumulated gradients were "
            "saved. Those of the micro-batches since the last update are lost.",
            self._title,
            path,
        )


def _prefix(path: str) -> str:
    """Returns how the names of the checkpoints beside a file of weights begin."""
    return f"{path}.accumulated_"


def _stem(path: str, weights: str) -> str:
    """Returns the path of the checkpoint beside a file that belongs to some weights.

    Args:
        path: The file that the callback writes and reads.
        weights: The file that has the weights.
    """
    checksum = 0
    with tf.io.gfile.GFile(weights, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return f"{_prefix(path)}{checksum:08x}"
