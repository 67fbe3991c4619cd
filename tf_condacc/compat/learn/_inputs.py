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

    It is that of ``tf.estimator.inputs``, which describes the arguments and has no default of
    `shuffle`.
    """
    return estimator_module().inputs.numpy_input_fn(
        x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads
    )
