"""Functions that make an `input_fn`. Mirrors ``tf.contrib.learn.io``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tf_condacc.compat._estimator import estimator_module


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool = True,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Returns an `input_fn` that feeds arrays. Mirrors ``tf.contrib.learn.io.numpy_input_fn``.

    It is that of ``tf.estimator.inputs``, which has no default of `shuffle`.

    Args:
        x: The features: a dictionary of arrays `[n, …]`.
        y: The labels: an array `[n, …]`, or None.
        batch_size: Number of examples in a batch.
        num_epochs: Number of times that the examples are fed; None for without end.
        shuffle: Whether to shuffle the examples.
        queue_capacity: See ``tf.estimator.inputs.numpy_input_fn``.
        num_threads: See ``tf.estimator.inputs.numpy_input_fn``.

    Raises:
        ValueError: `x` or `y` is empty, or arrays differ in length.
        TypeError: `x` or `y` is of another type.
    """
    return estimator_module().inputs.numpy_input_fn(
        x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads
    )
