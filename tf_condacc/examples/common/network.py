"""Convolutional networks for 8x8 digits, in the TensorFlow 1 style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.data import IMAGE_SHAPE, NUM_CLASSES, Examples

_LAYERS = ("conv1", "conv2", "hidden", "scores")
_DECAY = 0.9  # Decay of the moving statistics of batch normalization.

# A function that returns the kernel and the bias of a layer, given the name of the layer and the
# shape of its kernel.
Weights = Callable[[str, list[int]], tuple[Any, Any]]
# A function that normalizes the output of a layer, given the name of the layer and this output.
Normalize = Callable[[str, tf.Tensor], tf.Tensor]


class Classifier:
    """The network on a batch that is fed. All networks in a graph share the variables.

    Args:
        seed: Seed of the initial weights.
        after: Tensors to compute before the variables are read.

    Attributes:
        loss: Mean cross entropy: `[] float32`.
        accuracy: Fraction of examples whose label has the highest score: `[] float32`.
    """

    def __init__(self, seed: int, after: Sequence[tf.Tensor] = ()):
        self._images = v1.placeholder(tf.float32, [None, *IMAGE_SHAPE], name="images")
        self._labels = v1.placeholder(tf.int64, [None], name="labels")
        with tf.control_dependencies(after):
            outputs = scores(self._images, variables(seed))
        self.loss = mean_loss(outputs, self._labels)
        is_right = tf.equal(tf.argmax(outputs, axis=1), self._labels)
        self.accuracy = tf.reduce_mean(tf.cast(is_right, tf.float32))

    def feed(self, examples: Examples) -> dict[tf.Tensor, Any]:
        """Returns the feed dictionary of some examples."""
        return {self._images: examples.images, self._labels: examples.labels}


def mean_loss(outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy: `[] float32`.

    Args:
        outputs: The scores of the classes: `[n, 10] float32`.
        labels: `[n] int64`.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs),
        name="mean_loss",
    )


def scores(images: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Returns the scores of the classes: `[n, 10] float32`.

    Args:
        images: `[n, 8, 8, 1] float32`.
        weights: Function that returns the weights of a layer.
    """
    hidden = tf.nn.relu(_convolution("conv1", 32, images, weights))
    hidden = tf.nn.relu(_convolution("conv2", 64, hidden, weights))
    hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="VALID")
    return _dense(
        "scores", NUM_CLASSES, tf.nn.relu(_dense("hidden", 128, hidden, weights)), weights
    )


def small_scores(
    images: tf.Tensor, weights: Weights, normalize: Normalize | None = None
) -> tf.Tensor:
    """Returns the scores of the classes in a smaller network, which may have batch normalization.

    Args:
        images: `[n, 8, 8, 1] float32`.
        weights: Function that returns the weights of a layer.
        normalize: Function that normalizes the output of each convolution, before the rectifier.
            None for no normalization.
    """
    hidden = images
    for layer, channels in (("conv1", 16), ("conv2", 32)):
        hidden = _convolution(layer, channels, hidden, weights)
        hidden = tf.nn.relu(normalize(layer, hidden) if normalize else hidden)
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="VALID")
    return _dense("scores", NUM_CLASSES, hidden, weights)


def _convolution(layer: str, channels: int, inputs: tf.Tensor, weights: Weights) -> tf.Tensor:
    kernel, bias = weights(layer, [3, 3, inputs.shape[-1], channels])
    return tf.nn.conv2d(inputs, kernel, strides=1, padding="SAME") + bias


def _dense(layer: str, units: int, inputs: tf.Tensor, weights: Weights) -> tf.Tensor:
    size = int(np.prod(inputs.shape[1:]))
    kernel, bias = weights(layer, [size, units])
    return tf.matmul(tf.reshape(inputs, [-1, size]), kernel) + bias


def variables(seed: int) -> Weights:
    """Returns the weights as variables. The first use in a graph makes them, others share them.

    Args:
        seed: Seed of the initial weights. The seed of each variable is derived from it, so that the
            weights do not depend on the number of operations in the graph.
    """

    def weights(layer: str, shape: list[int]) -> tuple[tf.Variable, tf.Variable]:
        uniform = v1.glorot_uniform_initializer(seed + _LAYERS.index(layer))
        with v1.variable_scope(layer, reuse=v1.AUTO_REUSE, use_resource=True):
            return (
                v1.get_variable("kernel", shape, initializer=uniform),
                v1.get_variable("bias", shape[-1:], initializer=v1.zeros_initializer()),
            )

    return weights


def batch_norm(training: bool) -> Normalize:
    """Returns batch normalization with the statistics of the tower's part of the batch."""

    def normalize(name: str, inputs: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope(f"{name}_norm"):
            shape, ones, zeros = [inputs.shape[-1]], v1.ones_initializer(), v1.zeros_initializer()
            gamma = v1.get_variable("gamma", shape, initializer=ones)
            beta = v1.get_variable("beta", shape, initializer=zeros)
            mean = v1.get_variable("moving_mean", shape, initializer=zeros, trainable=False)
            variance = v1.get_variable("moving_variance", shape, initializer=ones, trainable=False)
        if not training:
            return v1.nn.fused_batch_norm(inputs, gamma, beta, mean, variance, is_training=False)[0]
        outputs, batch_mean, batch_variance = v1.nn.fused_batch_norm(inputs, gamma, beta)
        for moving, current in ((mean, batch_mean), (variance, batch_variance)):
            update = v1.assign_sub(moving, (1 - _DECAY) * (moving - current))
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        return outputs

    return normalize
