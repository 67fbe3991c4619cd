"""The model of the MNIST tutorial of TensorFlow 1: two hidden layers, for graphs and sessions."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE

__all__ = [
    "IMAGE_PIXELS",
    "IMAGE_SIZE",
    "NUM_CLASSES",
    "evaluation",
    "inference",
    "loss",
    "training",
]


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> tf.Tensor:
    """Builds the model, as far as its predictions.

    Its variables are ``weights`` and ``biases`` in the name scopes ``hidden1``, ``hidden2`` and
    ``softmax_linear``, as in the original.

    Args:
        images: [batch, IMAGE_PIXELS] float32.
        hidden1_units: Number of units of the first hidden layer.
        hidden2_units: Number of units of the second hidden layer.

    Returns:
        The logits, [batch, NUM_CLASSES] float32.
    """
    sizes = (IMAGE_PIXELS, hidden1_units, hidden2_units, NUM_CLASSES)
    layer = images
    for number, name in enumerate(("hidden1", "hidden2", "softmax_linear")):
        inputs, units = sizes[number : number + 2]
        with v1.name_scope(name):
            values = v1.truncated_normal([inputs, units], stddev=1.0 / math.sqrt(inputs))
            weights = v1.Variable(values, name="weights")
            biases = v1.Variable(tf.zeros([units]), name="biases")
            layer = tf.matmul(layer, weights) + biases
            if name != "softmax_linear":
                layer = tf.nn.relu(layer)
    return layer


def loss(logits: Any, labels: Any) -> tf.Tensor:
    """Returns the mean cross entropy of the softmax of logits, a float32 scalar.

    Args:
        logits: [batch, NUM_CLASSES] float32.
        labels: [batch] integers, the classes.
    """
    labels = tf.cast(labels, tf.int64)
    return v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)


def training(loss: Any, learning_rate: float) -> tf.Operation:
    """Returns an operation that takes a step of gradient descent.

    It also makes a summary of the loss, and the variable ``global_step``, which counts the steps.

    Args:
        loss: The loss, a float scalar.
        learning_rate: The learning rate.
    """
    v1.summary.scalar("loss", loss)
    global_step = v1.Variable(0, name="global_step", trainable=False)
    optimizer = v1.train.GradientDescentOptimizer(learning_rate)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits: Any, labels: Any) -> tf.Tensor:
    """Returns how many examples have the highest logit at their label, an int32 scalar.

    Args:
        logits: [batch, NUM_CLASSES] float32.
        labels: [batch] int32 or int64, the classes.
    """
    is_correct = tf.math.in_top_k(targets=labels, predictions=logits, k=1)
    return tf.reduce_sum(tf.cast(is_correct, tf.int32))
