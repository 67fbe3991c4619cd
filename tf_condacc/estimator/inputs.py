"""Functions that make an `input_fn`. Mirrors ``tf.estimator.inputs``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

__all__ = ["numpy_input_fn"]


def numpy_input_fn(
    x: np.ndarray | Mapping[str, np.ndarray],
    y: np.ndarray | Mapping[str, np.ndarray] | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Returns an `input_fn` that feeds arrays. Mirrors ``tf.estimator.inputs.numpy_input_fn``.

    The examples of successive epochs follow each other without a break, so a batch may have
    examples of two of them. The last batch may be smaller. The arrays do not become part of the
    graph.

    Args:
        x: The features: an array `[n, …]`, or a dictionary of such arrays.
        y: The labels: likewise, or None for features alone.
        batch_size: Number of examples in a batch.
        num_epochs: Number of times that the examples are fed; None to repeat without end.
        shuffle: Whether to shuffle the examples of each epoch. Must be given.
        queue_capacity: Has no effect: examples are shuffled over the whole epoch.
        num_threads: Has no effect: one thread makes the batches.

    Returns:
        A function without arguments that returns the features of a batch, or a pair of the features
        and the labels, with the structures of `x` and `y`.

    Raises:
        ValueError: `shuffle` is not a bool, `x` or `y` is empty, or arrays differ in length.
        TypeError: `x` or `y` is neither an array nor a dictionary of arrays.
    """
    del queue_capacity, num_threads
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle!r}"
        )
    data = _checked(x, "x") if y is None else (_checked(x, "x"), _checked(y, "y"))
    arrays = tf.nest.flatten(data)
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise ValueError(
            f"Length of tensors in x and y is mismatched. All elements in x and y must have the "
            f"same length; got the shapes {[array.shape for array in arrays]}."
        )

    def batches() -> Iterator[tuple[np.ndarray, ...]]:
        for rows in _rows(lengths.copy().pop(), batch_size, num_epochs, shuffle):
            yield tuple(array[rows] for array in arrays)

    def input_fn() -> Any:
        specs = tuple(tf.TensorSpec([None, *each.shape[1:]], each.dtype) for each in arrays)
        dataset = v1.data.Dataset.from_generator(batches, output_signature=specs)
        iterator = v1.data.make_initializable_iterator(dataset.prefetch(1))
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return tf.nest.pack_sequence_as(data, iterator.get_next())

    return input_fn


def _checked(value: Any, name: str) -> Any:
    arrays = value.values() if isinstance(value, Mapping) else [value]
    if not arrays:
        raise ValueError(f"{name} cannot be an empty dict")
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise TypeError(f"{name} must be a dict of arrays or an array; got {type(value)}")
    if not all(array.ndim for array in arrays):
        raise ValueError(f"{name} cannot have an array without dimensions; got {value!r}")
    return dict(value) if isinstance(value, Mapping) else value


def _rows(
    num_rows: int, batch_size: int, num_epochs: int | None, shuffle: bool
) -> Iterator[np.ndarray]:
    """Yields the numbers of the rows of each batch."""
    pending = np.arange(0)
    epoch = 0
    while num_rows and (num_epochs is None or epoch < num_epochs):
        epoch += 1
        order = np.random.permutation(num_rows) if shuffle else np.arange(num_rows)
        pending = np.concatenate([pending, order])
        full = len(pending) // batch_size * batch_size
        yield from pending[:full].reshape(-1, batch_size)
        pending = pending[full:]
    if len(pending):
        yield pending
