"""The linear maps that cells of programs for TensorFlow 1 import by private names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

__all__ = ["Linear", "linear"]


class Linear:
    """A map of tensors to their sum after a multiplication with one matrix each.

    Mirrors ``_Linear`` of ``tf.contrib.rnn.python.ops.core_rnn_cell``. Its variables are ``kernel``
    and ``bias`` in the variable scope in which it is made.
    """

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """Makes the variables, or takes those of the scope if it reuses variables.

        Args:
            args: A tensor [batch, size] or a sequence of such tensors, like those that are mapped.
            output_size: The size of the result.
            build_bias: Whether to add a bias.
            bias_initializer: Initializer of the bias; zeros by default.
            kernel_initializer: Initializer of the matrices, [sum of sizes, output_size].

        Raises:
            ValueError: `args` is empty, or one of it is not of rank 2 or has no static size.
        """
        tensors = _as_tensors(args)
        sizes = [_size(tensor) for tensor in tensors]
        dtype = tensors[0].dtype
        self._build_bias = build_bias
        scope = v1.get_variable_scope()
        with v1.variable_scope(scope):
            self._weights = v1.get_variable(
                "kernel", [sum(sizes), output_size], dtype, initializer=kernel_initializer
            )
            if build_bias:
                with v1.variable_scope(scope) as inner:
                    inner.set_partitioner(None)
                    self._biases = v1.get_variable(
                        "bias",
                        [output_size],
                        dtype,
                        initializer=bias_initializer or v1.zeros_initializer(dtype),
                    )

    def __call__(self, args: Any) -> tf.Tensor:
        """Returns the result, [batch, output_size].

        Args:
            args: A tensor [batch, size] or a sequence of such tensors.
        """
        tensors = _as_tensors(args)
        joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1)
        result = tf.matmul(joined, self._weights)
        return tf.nn.bias_add(result, self._biases) if self._build_bias else result


def linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> tf.Tensor:
    """Returns the sum of tensors after a multiplication with one matrix each.

    Mirrors ``_linear`` of ``tf.contrib.rnn.python.ops.core_rnn_cell``. The arguments are those of
    `Linear`, with the same errors. The result is [batch, output_size].
    """
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


def _as_tensors(args: Any) -> Sequence[tf.Tensor]:
    is_sequence = isinstance(args, list | tuple)
    if args is None or (is_sequence and not args):
        raise ValueError("`args` must be specified")
    return [tf.convert_to_tensor(each) for each in (args if is_sequence else [args])]


def _size(tensor: tf.Tensor) -> int:
    """Returns the static size of the last dimension of a tensor of rank 2."""
    shape = tensor.shape
    if shape.rank != 2:
        raise ValueError(f"linear is expecting 2D arguments, got {tensor.name}: {shape}")
    if shape[1] is None:
        raise ValueError(f"linear expects shape[1] to be provided, got {tensor.name}: {shape}")
    return int(shape[1])
