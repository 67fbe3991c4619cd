"""Weights of gradients."""

from __future__ import annotations

import numbers

import tensorflow as tf

from tf_condacc._ops.host import on_host, scalar
from tf_condacc._typing import TensorLike


def weight_input(weight: TensorLike, dtype: tf.DType, accumulator: str) -> tf.Tensor:
    """Converts the weight of a gradient of a dtype to float64, on the host: `[] float64`.

    Raises:
        TypeError: `weight` is not a real number, or the gradient is one of integers.
    """
    where = f" (accumulator '{accumulator}')" if accumulator else ""
    if dtype.is_integer:
        raise TypeError(f"Gradients of dtype {dtype.name} have no weights{where}.")
    if isinstance(weight, numbers.Real) and not isinstance(weight, bool):
        return scalar(float(weight), tf.float64)
    with on_host():
        tensor = tf.convert_to_tensor(weight)
        if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
            raise TypeError(
                f"Argument weight must be a real number, got {tensor.dtype.name}{where}."
            )
        return tf.cast(tensor, tf.float64)


def multiplied(values: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiplies values, which are not integers, by a factor, `[] float64`; 0 * infinity is 0."""
    return tf.math.multiply_no_nan(values, tf.cast(factor, values.dtype))
