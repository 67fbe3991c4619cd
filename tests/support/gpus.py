"""Skips tests of what a machine with a GPU does not show."""

from __future__ import annotations

import pytest
import tensorflow as tf

# The error of what our accumulators on a GPU do not support.
NO_WEIGHTED_MEANS = "On a GPU, sparse gradients with weights have no MEAN"
NO_XLA = "op determinism, with which tests of Keras run on a GPU, excludes XLA"


def has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def skip_on_gpu(reason: str) -> None:
    """Skips the test that runs if TensorFlow sees a GPU."""
    if has_gpu():
        pytest.skip(reason)
