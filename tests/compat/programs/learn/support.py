"""What the programs of this folder share."""

import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import learn

X = np.array([[1.0], [3.0]], np.float32)
Y = np.array([[4.0], [12.0]], np.float32)
CASES = []


def case(function):
    CASES.append(function)
    return function


def batches(epochs=None):
    """Returns an input_fn of batches of one example, with slope 4 in both."""

    def input_fn():
        data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(epochs).batch(1)
        return data.make_one_shot_iterator().get_next()

    return input_fn


def network(features, labels, mode):
    slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    y = slope * features["x"]
    if mode == learn.ModeKeys.INFER:
        return y, None, None
    loss = tf.reduce_mean(tf.abs(labels - y))
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    # The gradient is the same for all examples.
    return y, loss, optimizer.minimize(tf.negative(slope), tf.train.get_global_step())


def core_model_fn(features, labels, mode, config):
    y, loss, train_op = network(features, labels, mode)
    metrics = None if loss is None else {"y": tf.metrics.mean(y)}
    return tf.estimator.EstimatorSpec(mode, {"y": y}, loss, train_op, metrics)


def learn_model_fn(features, targets, mode):
    y, loss, train_op = network(features, targets, mode)
    metrics = None if loss is None else {"y": tf.metrics.mean(y)}
    return learn.ModelFnOps(mode, {"y": y}, loss, train_op, metrics)


def core(folder, **config):
    return tf.estimator.Estimator(core_model_fn, config=configured(folder, **config))


def configured(folder, **config):
    return learn.RunConfig(model_dir=folder, **{"save_checkpoints_steps": 2, **config})


class Seen(tf.train.SessionRunHook):
    """Notes the steps of the checkpoints that are evaluated, and the numbers of batches."""

    def __init__(self):
        self.steps, self.batches = [], []

    def begin(self):
        self.batches.append(0)

    def after_run(self, run_context, run_values):
        self.batches[-1] += 1

    def end(self, session):
        self.steps.append(int(session.run(tf.train.get_global_step())))


def experiment(estimator, **arguments):
    """Returns an Experiment and what its evaluations see."""
    seen = Seen()
    arguments = {"eval_steps": None, "check_interval_secs": None, **arguments}
    made = learn.Experiment(
        estimator,
        arguments.pop("train_input_fn", batches()),
        batches(1),
        eval_hooks=[seen],
        eval_delay_secs=0,
        **arguments,
    )
    return made, seen


def numbers(metrics):
    return {name: float(value) for name, value in metrics.items()}


def results(result):
    metrics, exports = result
    return [numbers(metrics), [] if exports is None else [os.path.isdir(each) for each in exports]]


def error(function, *arguments, **named):
    try:
        return f"returned {type(function(*arguments, **named)).__name__}"
    except Exception as raised:
        return [type(raised).__name__, [each.__name__ for each in type(raised).__bases__]]


def folders(folder):
    return sorted(each for each in os.listdir(folder) if os.path.isdir(os.path.join(folder, each)))


def checkpoints(folder):
    paths = tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths
    return [int(path.rpartition("-")[2]) for path in paths]
