"""Trials of trainings that must learn the same weights in all setups."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.parity_trainings import (
    cross_entropy,
    descent,
    exact,
    momentum,
    points_and_classes,
    rounded,
    sums,
    training_of,
)
from tests.support.trial_runs import Trials
from tf_condacc import parity

v1 = tf.compat.v1
TRIALS = Trials()


@TRIALS.add
def means_of_dense_and_sparse_gradients_are_equal_in_all_setups(_: Any) -> None:
    report = parity.assert_parity(exact(), tolerance=0)
    assert len(report.setups) == 7
    assert report.groups == [report.setups]
    for setup in report.setups:
        assert not report.distances(setup).any()


@TRIALS.add
def sums_of_dense_and_sparse_gradients_are_equal_in_all_setups(_: Any) -> None:
    parity.assert_parity(sums(), tolerance=0)


@TRIALS.add
def four_replicas_are_equal_to_one_big_batch(_: Any) -> None:
    report = parity.assert_parity(exact(), num_replicas=4, tolerance=0)
    assert "4 towers" in report.setups


@TRIALS.add
def micro_batches_on_replicas_are_equal_to_one_big_batch(_: Any) -> None:
    setups = [parity.mirrored(2, num_micro_batches=2), parity.accumulators(4)]
    for training in (exact(), sums()):
        parity.assert_parity(training, setups, tolerance=0)


@TRIALS.add
def rounding_errors_are_tolerated(_: Any) -> None:
    report = parity.assert_parity(rounded(batches=points_and_classes(steps=10)))
    parts = [report.distances(setup)[1:] / report.limits[1:] for setup in report.setups]
    assert 0 < np.max(parts) < 0.1


@TRIALS.add
def variables_of_a_template_of_version_1_are_found(_: Any) -> None:
    """The template makes its variables in another order than it lists them eagerly."""
    batches = points_and_classes()

    def network(points: Any) -> tf.Tensor:
        kernel = v1.get_variable("kernel", [4, 3])
        return points @ kernel + v1.get_variable("bias", [3], initializer=v1.zeros_initializer())

    def build() -> Any:
        template = v1.make_template("network", network)
        template(batches[0][0])
        return template

    training = training_of(build, lambda model, x, y: cross_entropy(model(x), y), momentum, batches)
    report = parity.assert_parity(training)
    assert [name.split("/")[-1] for name in report.variables] == ["kernel", "bias"]


@TRIALS.add
def keras_models_and_optimizers_are_trained(_: Any) -> None:
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    def build() -> Any:
        dense = keras.layers.Dense
        model = keras.Sequential([dense(5, activation="tanh"), dense(3)])
        model.build([None, 4])
        return model

    training = training_of(
        build,
        lambda model, x, y: cross_entropy(model(x), y),
        lambda: keras.optimizers.SGD(0.5, momentum=0.9),
        points_and_classes(),
        v1_optimizer=momentum,
    )
    assert len(parity.assert_parity(training).setups) == 7


@TRIALS.add
def losses_of_keras_that_divide_by_the_number_of_replicas_are_known(_: Any) -> None:
    import keras

    loss = keras.losses.MeanSquaredError()
    points = np.float32([[1, 0], [0, 1], [1, 1], [2, 1]])

    def described(**arguments: Any) -> parity.Training:
        return training_of(
            lambda: tf.Variable([[0.0], [0.0]]),
            lambda model, x, y: loss(y, x @ model),
            descent,
            [(points, points @ np.float32([[1], [-2]]))] * 3,
            **arguments,
        )

    setups = [parity.mirrored(2), parity.mirrored(2, 2), parity.towers(2)]
    parity.assert_parity(described(divided_by_replicas=True), setups)
    text = str(parity.compare(described(), setups))
    assert "MirroredStrategy with 2 replicas: the ratio is 1/2, and there are 2 replicas" in text


@TRIALS.add
def parts_may_be_nested_and_labels_none(_: Any) -> None:
    batch = {"x": np.float32([[1, 2], [3, 4]]), "scale": np.float32([1, 2])}

    def loss(model: Any, features: Any, labels: Any) -> tf.Tensor:
        assert labels is None
        return tf.reduce_mean(features["scale"] * tf.linalg.matvec(features["x"], model))

    training = training_of(lambda: tf.Variable([1.0, 2.0]), loss, descent, [(batch, None)] * 2)
    parity.assert_parity(training, tolerance=0)
