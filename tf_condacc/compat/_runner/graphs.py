"""What programs of TensorFlow 1 expect of graphs, where TensorFlow 2 is different."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_nn_ops, variable_scope

from tf_condacc.compat._changes import replace_everywhere

_TRANSPOSED = (
    "conv2d_backprop_input",
    "conv3d_backprop_input_v2",
    "depthwise_conv2d_native_backprop_input",
)


def collect_tensors() -> None:
    """Makes the losses of regularizers of variables tensors in collections.

    TensorFlow 2 puts objects there that compute the loss again for each use. They are neither
    inputs of ``tf.control_dependencies`` nor of moving averages.
    """

    def tensor_of(loss: Callable[[], Any]) -> Any:
        with tf.init_scope():
            return loss()

    variable_scope._LazyEvalTensor = tensor_of


def keep_requested_shapes() -> None:
    """Gives transposed convolutions the static shape that the program asks for.

    TensorFlow 2 takes the batch size from the input, where it often is unknown. Programs reshape
    the output to its static shape.
    """
    for name in _TRANSPOSED:
        original = getattr(gen_nn_ops, name)
        replace_everywhere([(original, _keeping_shape(original))])


def _keeping_shape(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def transposed(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not tf.executing_eagerly():
            result.set_shape(tensor_util.constant_value_as_shape(result.op.inputs[0]))
        return result

    return transposed
