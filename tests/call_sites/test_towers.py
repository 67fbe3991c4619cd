"""Tests of towers in the shapes in which legacy programs call replicate_model_fn."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.call_sites.regression import RATE, X, Y, descent, gradient, parts, trained
from tests.support.tower_support import cpus
from tf_condacc.estimator import Estimator, EstimatorSpec, RunConfig

v1 = tf.compat.v1
MEAN, SUM = v1.losses.Reduction.MEAN, v1.losses.Reduction.SUM
UPDATES = 3


def regression(features, labels, mode, train_of=None, **fields):
    """Builds the regression of `call_sites` as a model_fn."""
    weights = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    predictions = tf.reduce_sum(features["x"] * weights, axis=1, name="predictions")
    loss = tf.reduce_mean(tf.square(predictions - labels), name="mean_square") / 2
    train_of = train_of or (
        lambda loss, step: tf_condacc.TowerOptimizer(descent()).minimize(loss, step)
    )
    train = train_of(loss, v1.train.get_global_step())
    fields = {name: make() for name, make in fields.items()}
    return EstimatorSpec(mode, predictions, loss, train, **fields)


def model_fn(features, labels, mode):
    return regression(features, labels, mode)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat().batch(8)


def new_estimator(towers, folder):
    config = RunConfig(session_config=v1.ConfigProto(device_count={"CPU": 4}))
    return Estimator(towers, model_dir=str(folder), config=config)


CALLS = {
    "bare": (lambda: tf_condacc.replicate_model_fn(model_fn), 1),
    "mean": (lambda: tf_condacc.replicate_model_fn(model_fn, loss_reduction=MEAN), 1),
    "devices": (lambda: tf_condacc.replicate_model_fn(model_fn, devices=cpus(2)), 1),
    "sum on devices": (
        lambda: tf_condacc.replicate_model_fn(model_fn, loss_reduction=SUM, devices=cpus(4)),
        4,
    ),
    "positional": (lambda: tf_condacc.replicate_model_fn(model_fn, MEAN, cpus(4)), 1),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_form_of_the_call_trains_as_a_plain_computation_says(call, tmp_path):
    make, factor = CALLS[call]
    model = new_estimator(make(), tmp_path).train(input_fn, steps=UPDATES)
    expected = np.zeros(2)
    for _ in range(UPDATES):
        expected = expected - factor * RATE * gradient(expected)
    np.testing.assert_array_equal(model.get_variable_value("w"), expected)
    assert factor > 1 or np.array_equal(expected, trained(UPDATES))


def test_update_ops_grouped_with_minimize_run_for_every_tower(tmp_path):
    def moving_sum_fn(features, labels, mode):
        total = v1.get_variable("total", [2], initializer=v1.zeros_initializer(), trainable=False)
        batch = tf.reduce_sum(features["x"], axis=0)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(total, batch))

        def train_of(loss, step):
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
            return tf.group(
                tf_condacc.TowerOptimizer(descent()).minimize(loss, global_step=step), *updates
            )

        return regression(features, labels, mode, train_of)

    towers = tf_condacc.replicate_model_fn(moving_sum_fn, devices=cpus(2))
    model = new_estimator(towers, tmp_path).train(input_fn, steps=UPDATES)
    np.testing.assert_array_equal(model.get_variable_value("w"), trained(UPDATES))
    np.testing.assert_array_equal(model.get_variable_value("total"), UPDATES * X.sum(axis=0))


class Watch(v1.train.SessionRunHook):
    """Fetches a tensor by its name in each step, as programs that log do."""

    def __init__(self, name):
        self.name, self.values = name, []

    def begin(self):
        self.tensor = v1.get_default_graph().get_tensor_by_name(self.name)

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def test_hooks_and_scaffolds_find_tensors_by_the_names_of_the_first_tower(tmp_path):
    watches = []

    def hooks():
        watches.append(Watch("mean_square:0"))
        return [watches[-1], v1.train.LoggingTensorHook(["mean_square"], every_n_iter=1)]

    def scaffold():
        w = v1.get_default_graph().get_tensor_by_name("w/Initializer/zeros:0")
        (variable,) = v1.trainable_variables()
        feed = {w: [8.0, -8.0]}
        return v1.train.Scaffold(
            init_op=v1.global_variables_initializer(),
            init_feed_dict=feed,
            saver=v1.train.Saver({"renamed": variable}, max_to_keep=1),
        )

    def logging_fn(features, labels, mode):
        return regression(features, labels, mode, training_hooks=hooks, scaffold=scaffold)

    towers = tf_condacc.replicate_model_fn(logging_fn, devices=cpus(2))
    model = new_estimator(towers, tmp_path).train(input_fn, steps=2)
    weights, losses = np.array([8.0, -8.0]), []
    for _ in range(2):  # A third loss would not be exact in float32.
        (x, y), _ = parts(2)
        losses.append(np.mean((x @ weights - y) ** 2))
        weights = weights - RATE * gradient(weights)
    # The hooks are those of the last tower, but the names that they watch are in the first tower.
    assert [each.values for each in watches] == [[], losses]
    assert model.get_variable_names() == ["renamed"]
    np.testing.assert_array_equal(model.get_variable_value("renamed"), weights)


def test_synchronized_replicas_inside_towers_average_the_towers_of_each_worker(tmp_path):
    def synchronous_fn(features, labels, mode):
        inner = tf_condacc.SyncReplicasOptimizer(
            descent(), replicas_to_aggregate=2, total_num_replicas=1
        )
        made.append(inner)
        return regression(
            features,
            labels,
            mode,
            lambda loss, step: tf_condacc.TowerOptimizer(inner).minimize(loss, global_step=step),
            training_hooks=lambda: [inner.make_session_run_hook(is_chief=True)],
        )

    made = []
    towers = tf_condacc.replicate_model_fn(synchronous_fn, devices=cpus(2))
    model = new_estimator(towers, tmp_path)
    # Each update is the mean of two runs, each of which sums the gradients of the towers' parts.
    model.train(input_fn, steps=UPDATES)
    np.testing.assert_array_equal(model.get_variable_value("w"), trained(UPDATES))
    assert len(made) == 2
