"""Lets trainings on a GPU be compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tests.support.gpus import has_gpu


@pytest.fixture(autouse=True)
def exact_on_a_gpu() -> Iterator[None]:
    """On a GPU, TensorFlow multiplies in a fixed order, and Keras does not choose XLA."""
    if not has_gpu():
        yield
        return
    tf.random.set_seed(0)  # Without a seed, random operations are errors then.
    tf.config.experimental.enable_op_determinism()
    yield
    config.disable_op_determinism()
