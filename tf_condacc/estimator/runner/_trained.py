"""The latest checkpoint in the folder of an Estimator."""

from __future__ import annotations

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
