"""Batches of examples, and their division among replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import Nested


def _map(function: Any, nested: Nested) -> Nested:
    """Applies a function to each tensor of a nested structure, and leaves None as it is."""
    return tf.nest.map_structure(lambda leaf: None if leaf is None else function(leaf), nested)


def size(batch: tuple[Nested, Nested]) -> int:
    """Returns the number of examples of a batch.

    Raises:
        ValueError: The tensors have no leading dimension, or different ones.
    """
    leaves = [leaf for leaf in tf.nest.flatten(batch) if leaf is not None]
    sizes = {int(np.shape(leaf)[0]) if np.ndim(leaf) else -1 for leaf in leaves}
    if len(sizes) != 1 or min(sizes) < 1:
        shapes = ", ".join(str(np.shape(leaf)) for leaf in leaves)
        raise ValueError(
            "batches: expected tensors with one common leading dimension of at least 1, "
            f"got shapes {shapes}"
        )
    return sizes.pop()


def checked(batches: Iterable[Any]) -> list[tuple[Nested, Nested]]:
    """Returns the batches as pairs of nested arrays.

    Raises:
        ValueError: There are none, or infinitely many, or one is not a pair, or its tensors have
            different sizes.
    """
    if (
        isinstance(batches, tf.data.Dataset)
        and batches.cardinality() == tf.data.INFINITE_CARDINALITY
    ):
        raise ValueError(
            "batches: expected a finite number, got an infinite dataset. Pass the first n of them, "
            "dataset.take(n)."
        )
    found = []
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise ValueError(f"batches: expected pairs (features, labels), got {type(batch)}")
        found.append((_map(np.asarray, batch[0]), _map(np.asarray, batch[1])))
        size(found[-1])
    if not found:
        raise ValueError("batches: expected at least one, got none")
    return found


def split(features: Nested, labels: Nested, number: int, setup: str) -> list[tuple[Nested, Nested]]:
    """Divides a batch among replicas. All parts have the same size.

    Raises:
        ValueError: The batch cannot be divided equally. The error names the setup.
    """
    whole = size((features, labels))
    if whole % number:
        raise ValueError(
            f"{setup}: expected batches of a multiple of {number} examples, got {whole}. Means "
            "over unequal parts do not add up to the mean over the batch."
        )
    part = whole // number
    return [
        (
            _map(lambda leaf, k=k: leaf[k * part : (k + 1) * part], features),
            _map(lambda leaf, k=k: leaf[k * part : (k + 1) * part], labels),
        )
        for k in range(number)
    ]


def reverse(nested: Nested) -> Nested:
    """Returns the examples in reverse order."""
    return _map(lambda leaf: leaf[::-1].copy(), nested)


def placeholders(batches: Sequence[tuple[Nested, Nested]]) -> tuple[Nested, Nested]:
    """Returns placeholders for batches of the same structure, in the current graph.

    Dimensions in which the batches differ are unknown.
    """
    leaves = [tf.nest.flatten(batch) for batch in batches]
    made: list[Any] = []
    for values in zip(*leaves, strict=True):
        if values[0] is None:
            made.append(None)
            continue
        shape = tf.TensorShape(values[0].shape)
        for value in values[1:]:
            shape = shape.most_specific_compatible_shape(tf.TensorShape(value.shape))
        made.append(v1.placeholder(values[0].dtype, shape))
    return tf.nest.pack_sequence_as(batches[0], made)


def feed(placeholders: Nested, values: Nested) -> dict[Any, Any]:
    """Returns the feed of placeholders."""
    pairs = zip(tf.nest.flatten(placeholders), tf.nest.flatten(values), strict=True)
    return {placeholder: value for placeholder, value in pairs if placeholder is not None}
