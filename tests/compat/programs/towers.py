"""Trains an Estimator on two towers."""

import tempfile

import tensorflow as tf
from tensorflow.contrib.estimator import TowerOptimizer
from tensorflow.contrib.estimator.python.estimator.replicate_model_fn import replicate_model_fn


def dense(inputs):
    if hasattr(tf.layers, "dense"):
        return tf.layers.dense(inputs, 1, use_bias=False, kernel_initializer=tf.zeros_initializer())
    weights = tf.get_variable("kernel", [2, 1], initializer=tf.zeros_initializer())
    return tf.matmul(inputs, weights)


def model_fn(features, labels, mode, params):
    outputs = dense(features)
    loss = tf.losses.mean_squared_error(labels, outputs)
    optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {"outputs": outputs}, loss, train_op)


def input_fn():
    features = [[1.0, 0.0], [0.0, 1.0]]
    return tf.data.Dataset.from_tensors((features, [[2.0], [4.0]])).repeat()


def train(steps):
    replicated = replicate_model_fn(
        model_fn, loss_reduction=tf.losses.Reduction.MEAN, devices=["/cpu:0", "/cpu:0"]
    )
    with tempfile.TemporaryDirectory() as folder:
        estimator = tf.estimator.Estimator(replicated, model_dir=folder, params={"rate": 0.5})
        estimator.train(input_fn, steps=steps)
        (name,) = (name for name in estimator.get_variable_names() if name.endswith("kernel"))
        return estimator.get_variable_value(name).ravel().tolist()
