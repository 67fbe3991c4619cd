"""What is accumulated, beside the weights that ``keras.callbacks.BackupAndRestore`` saves."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterable

import keras
import tensorflow as tf

from tf_condacc._tensorflow import Trackable

_LOG = logging.getLogger("tf_condacc")
_NAME = "accumulated_gradients"
_CHUNK = 1 << 24  # Bytes that are read at once.


class Backups:
    """Saves what is accumulated whenever the callback saves weights, and restores it with them.

    The file of the weights stays that of Keras. The name of the checkpoint beside it contains a
    checksum of that file, so that the gradients are never added to other weights.

    Args:
        state: What is accumulated.
        title: What the warning calls it.

    Attributes:
        folders: The folders of the callbacks of the ``fit`` that is running.
    """

    def __init__(self, state: Trackable, title: str) -> None:
        self._state = state
        self._title = title
        self.folders: set[str] = set()

    def begin(self, callbacks: Iterable[object]) -> None:
        """Notes the folders of the callbacks of a ``fit``."""
        self.folders = {
            os.path.dirname(os.path.join(each.backup_dir, _NAME))
            for each in callbacks
            if isinstance(each, keras.callbacks.BackupAndRestore)
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves what is accumulated, if a file of weights is that of a callback."""
        folder, stem = self._folder_and_stem(path)
        if folder is None:
            return
        old = tf.io.gfile.glob(os.path.join(folder, f"{_NAME}*"))
        tf.train.Checkpoint(state=self._state).write(stem)
        for file in old:
            if not file.startswith(f"{stem}."):
                tf.io.gfile.remove(file)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Restores what was accumulated, if a file of weights is that of a callback."""
        folder, stem = self._folder_and_stem(path)
        if folder is None:
            return
        if tf.io.gfile.exists(f"{stem}.index"):
            tf.train.Checkpoint(state=self._state).read(stem)
            return
        _LOG.warning(
            "%s: the folder '%s' of BackupAndRestore has no accumulated gradients that were saved "
            "with its weights. The training continues without those of the last micro-batches.",
            self._title,
            folder,
        )

    def _folder_and_stem(self, path: str | os.PathLike[str]) -> tuple[str | None, str]:
        """Returns the folder of a callback's weights, and the path of a checkpoint beside them.

        The folder is None if the weights are not those of a callback.
        """
        folder = os.path.dirname(path)
        if folder not in self.folders:
            return None, ""
        return folder, os.path.join(folder, f"{_NAME}_{_checksum(os.fspath(path)):08x}")


def _checksum(path: str) -> int:
    """Returns a checksum of a file."""
    checksum = 0
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
