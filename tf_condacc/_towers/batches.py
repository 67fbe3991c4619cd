"""Splitting a batch among the towers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._tensorflow import nest
from tf_condacc._typing import Nested


def split(structure: Nested, num_towers: int, device: str) -> list[Any]:
    """Splits every tensor of a structure along its first dimension into equal parts.

    Args:
        structure: A Tensor, SparseTensor or RaggedTensor `[n, …]`, or nested dictionaries, tuples
            and lists of them. Arrays, and lists of numbers or strings, are converted to tensors.
            None is not split.
        num_towers: Number of parts.
        device: Device on which the tensors are split.

    Returns:
        A list of `num_towers` structures, with tensors `[n / num_towers, …]`.

    Raises:
        ValueError: A tensor is a scalar, or `n` is not divisible by `num_towers`.
        tf.errors.InvalidArgumentError: `n` is not divisible, and is known only when the graph runs.
    """
    outline = nest.get_traverse_shallow_structure(lambda part: not _is_plain(part), structure)
    with v1.device(device), v1.name_scope("split_inputs"):
        leaves = nest.flatten_up_to(outline, structure)
        parts = [_split_one(leaf, num_towers) for leaf in leaves]
    return [
        tf.nest.pack_sequence_as(outline, [part[number] for part in parts])
        for number in range(num_towers)
    ]


def _is_plain(part: Any) -> bool:
    """Returns whether a part is a list of numbers or strings, or of such lists."""
    leaves = tf.nest.flatten(part) if isinstance(part, list) else []
    return bool(leaves) and all(isinstance(x, (int, float, str, bytes, np.generic)) for x in leaves)


def _split_one(value: Any, num_towers: int) -> list[Any]:
    if value is None:
        return [None] * num_towers
    if isinstance(value, tf.SparseTensor):
        with tf.control_dependencies(_checks(value, value.dense_shape[0], num_towers)):
            value = tf.sparse.map_values(tf.identity, value)
            return tf.sparse.split(sp_input=value, num_split=num_towers, axis=0)
    if isinstance(value, tf.RaggedTensor):
        num_rows = value.nrows()
        with tf.control_dependencies(_checks(value, num_rows, num_towers)):
            size = tf.identity(num_rows) // num_towers
            return [value[k * size : (k + 1) * size] for k in range(num_towers)]
    value = tf.convert_to_tensor(value)
    if value.shape.rank == 0:
        raise ValueError(
            f"Expected a batch to split among {num_towers} towers, got scalar {value}."
        )
    with tf.control_dependencies(_checks(value, tf.shape(value)[0], num_towers)):
        return tf.split(value, num_towers, axis=0)


def _checks(value: Any, size: tf.Tensor, num_towers: int) -> list[tf.Operation]:
    """Checks that a batch can be split equally, or returns an operation that checks it later."""
    known = value.shape[0] if value.shape.rank else None
    if known is None:
        known = tf.get_static_value(size)
    text = f"needs to be divisible by the number of GPUs, which is {num_towers}."
    if known is None:
        is_divisible = tf.equal(size % num_towers, 0)
        return [tf.debugging.Assert(is_divisible, [f"Batch size {text} It is", size])]
    if known % num_towers != 0:
        raise ValueError(f"Batch size {known} {text}")
    return []
