"""A convolutional network for 8x8 digits as a legacy `model_fn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.estimator import EstimatorSpec, ModeKeys, TowerOptimizer, export
from tf_condacc.examples.digits.data import NUM_CLASSES

MOMENTUM = 0.9
_DECAY = 0.9  # Decay of the moving statistics.

# A function that returns the weights with a name and a shape.
Weights = Callable[[str, list[int]], Any]


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> EstimatorSpec:
    """Builds the model, and returns its spec.

    Args:
        features: A dictionary with "image": `[n, 8, 8, 1] float32`.
        labels: `[n] int64`.
        mode: One of `ModeKeys`.
        params: A dictionary with "learning_rate", "batch_norm" (whether to normalize) and "seed"
            (of the initial weights).
    """
    normalize = _batch_norm(mode == ModeKeys.TRAIN) if params["batch_norm"] else _no_norm
    scores = logits(features["image"], _variables(params["seed"]), normalize)
    predictions = {"class": tf.argmax(scores, axis=1), "probabilities": tf.nn.softmax(scores)}
    if mode == ModeKeys.PREDICT:
        outputs = {"digits": export.PredictOutput(predictions)}
        return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = mean_loss(scores, labels)
    if mode == ModeKeys.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["class"])}
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = TowerOptimizer(v1.train.MomentumOptimizer(params["learning_rate"], MOMENTUM))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def logits(images: tf.Tensor, weights: Weights, normalize: Callable[[str, Any], Any]) -> tf.Tensor:
    """Returns the scores of the classes: `[n, 10] float32`.

    Args:
        images: `[n, 8, 8, 1] float32`.
        weights: Function that returns the weights of a layer.
        normalize: Function that is called with the name and the output of each convolution, before
            the rectifier.
    """
    hidden = images
    for name, channels in (("conv1", 16), ("conv2", 32)):
        kernel = weights(f"{name}_kernel", [3, 3, hidden.shape[-1], channels])
        hidden = tf.nn.conv2d(hidden, kernel, strides=1, padding="SAME")
        hidden = hidden + weights(f"{name}_bias", [channels])
        hidden = tf.nn.relu(normalize(name, hidden))
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="VALID")
    hidden = tf.reshape(hidden, [-1, 2 * 2 * 32])
    scores = tf.matmul(hidden, weights("scores_kernel", [2 * 2 * 32, NUM_CLASSES]))
    return scores + weights("scores_bias", [NUM_CLASSES])


def mean_loss(scores: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy: `[] float32`.

    Args:
        scores: `[n, 10] float32`.
        labels: `[n] int64`.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores),
        name="mean_loss",
    )


def _variables(seed: int) -> Weights:
    """Returns the weights as variables. The first tower makes them, and the others share them."""

    def weights(name: str, shape: list[int]) -> tf.Variable:
        is_bias = len(shape) == 1
        start = v1.zeros_initializer() if is_bias else v1.glorot_uniform_initializer(seed=seed)
        return v1.get_variable(name, shape, initializer=start)

    return weights


def _no_norm(name: str, inputs: tf.Tensor) -> tf.Tensor:
    return inputs


def _batch_norm(training: bool) -> Callable[[str, tf.Tensor], tf.Tensor]:
    """Returns batch normalization with the statistics of the tower's part of the batch."""

    def normalize(name: str, inputs: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope(f"{name}_norm"):
            shape, ones, zeros = [inputs.shape[-1]], v1.ones_initializer(), v1.zeros_initializer()
            gamma = v1.get_variable("gamma", shape, initializer=ones)
            beta = v1.get_variable("beta", shape, initializer=zeros)
            mean = v1.get_variable("moving_mean", shape, initializer=zeros, trainable=False)
            variance = v1.get_variable("moving_variance", shape, initializer=ones, trainable=False)
            if not training:
                outputs, _, _ = v1.nn.fused_batch_norm(
                    inputs, gamma, beta, mean, variance, is_training=False
                )
                return outputs
            outputs, batch_mean, batch_variance = v1.nn.fused_batch_norm(inputs, gamma, beta)
            for moving, current in ((mean, batch_mean), (variance, batch_variance)):
                update = v1.assign_sub(moving, (1 - _DECAY) * (moving - current))
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
            return outputs

    return normalize
