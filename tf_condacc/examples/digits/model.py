"""A small convolutional network for 8x8 digits, in the TensorFlow 1 style."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.digits.data import NUM_CLASSES


def logits(images: tf.Tensor, seed: int) -> tf.Tensor:
    """Returns the scores of the classes: `[n, 10] float32`.

    The first call in a graph makes the variables, and later calls share them.

    Args:
        images: `[n, 8, 8, 1] float32`.
        seed: Seed of the initial weights. The seed of each variable is derived from it, so that the
            weights do not depend on the number of operations in the graph.
    """
    with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
        hidden = _convolution("conv1", images, [3, 3, 1, 32], seed)
        hidden = _convolution("conv2", hidden, [3, 3, 32, 64], seed + 1)
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="VALID")
        hidden = tf.nn.relu(_dense("hidden", tf.reshape(hidden, [-1, 4 * 4 * 64]), 128, seed + 2))
        return _dense("scores", hidden, NUM_CLASSES, seed + 3)


def loss(scores: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy: `[] float32`.

    Args:
        scores: `[n, 10] float32`.
        labels: `[n] int64`.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    )


def accuracy(scores: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the fraction of examples whose label has the highest score: `[] float32`.

    Args:
        scores: `[n, 10] float32`.
        labels: `[n] int64`.
    """
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))


def _convolution(name: str, inputs: tf.Tensor, shape: list[int], seed: int) -> tf.Tensor:
    with v1.variable_scope(name):
        kernel, bias = _weights(shape, seed)
        return tf.nn.relu(tf.nn.conv2d(inputs, kernel, strides=1, padding="SAME") + bias)


def _dense(name: str, inputs: tf.Tensor, units: int, seed: int) -> tf.Tensor:
    with v1.variable_scope(name):
        kernel, bias = _weights([inputs.shape[-1], units], seed)
        return tf.matmul(inputs, kernel) + bias


def _weights(shape: list[int], seed: int) -> tuple[tf.Variable, tf.Variable]:
    kernel = v1.get_variable(
        "kernel",
        shape,
        initializer=v1.glorot_uniform_initializer(seed=seed),
        use_resource=True,
    )
    bias = v1.get_variable(
        "bias", [shape[-1]], initializer=v1.zeros_initializer(), use_resource=True
    )
    return kernel, bias
