"""The latest checkpoint in the folder of an Estimator."""

from __future__ import annotations

import abc

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1


def checkpoint(model_dir: str) -> str:
    """Returns the path of the latest checkpoint in a folder.

    Raises:
        ValueError: There is none.
    """
    latest = tf.train.latest_checkpoint(model_dir)
    if latest is None:
        raise ValueError(f"Couldn't find trained model at {model_dir}.")
    return latest


def steps(model_dir: str) -> int:
    """Returns the global step of the latest checkpoint in a folder, or 0 if there is none."""
    latest = tf.train.latest_checkpoint(model_dir)
    return 0 if latest is None else int(tf.train.load_variable(latest, v1.GraphKeys.GLOBAL_STEP))


class Trained(abc.ABC):
    """An object with a folder of checkpoints."""

    @property
    @abc.abstractmethod
    def model_dir(self) -> str:
        """The folder of checkpoints and summaries."""

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the latest checkpoint, or None."""
        return tf.train.latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """Returns the names of the variables in the latest checkpoint.

        Raises:
            ValueError: There is no checkpoint.
        """
        return [name for name, _ in tf.train.list_variables(checkpoint(self.model_dir))]

    def get_variable_value(self, name: str) -> np.ndarray:
        """Returns the value of a variable in the latest checkpoint.

        Args:
            name: Name of the variable.

        Raises:
            ValueError: There is no checkpoint.
            tf.errors.NotFoundError: The checkpoint has no variable of this name.
        """
        return tf.train.load_variable(checkpoint(self.model_dir), name)
