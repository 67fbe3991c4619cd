"""Tests of the comparison of trainings: setups that agree, and the faults that it finds.

They share a process of their own, because logical CPUs must be configured before TensorFlow runs
its first operation.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.parity.trainings import (
    cross_entropy,
    descent,
    exact,
    mean_of_products,
    momentum,
    points_and_classes,
    rounded,
    scores,
    sums,
)
from tests.processes.isolated import isolated
from tests.support.versions import needs_keras3
from tf_condacc import parity
from tf_condacc.parity._difference import Difference
from tf_condacc.parity._report import Report
from tf_condacc.parity._strategy_setups import big_batch, reversed_batch

v1 = tf.compat.v1
pytestmark = isolated()


@pytest.fixture(scope="module", autouse=True)
def four_cpus():
    parity.use_logical_cpus(4)


def test_means_of_dense_and_sparse_gradients_are_equal_in_all_setups():
    report = parity.assert_parity(exact(), tolerance=0)
    assert len(report.setups) == 7
    assert report.groups == [report.setups]
    for setup in report.setups:
        assert not report.distances(setup).any()


def test_sums_of_dense_and_sparse_gradients_are_equal_in_all_setups():
    parity.assert_parity(sums(), tolerance=0)


def test_four_replicas_are_equal_to_one_big_batch():
    report = parity.assert_parity(exact(), num_replicas=4, tolerance=0)
    assert "4 towers" in report.setups


def test_micro_batches_on_replicas_are_equal_to_one_big_batch():
    setups = [parity.mirrored(2, num_micro_batches=2), parity.accumulators(4)]
    for training in (exact(), sums()):
        parity.assert_parity(training, setups, tolerance=0)


def test_rounding_errors_are_tolerated():
    report = parity.assert_parity(rounded(batches=points_and_classes(steps=10)))
    parts = [report.distances(setup)[1:] / report.limits[1:] for setup in report.setups]
    assert 0 < np.max(parts) < 0.2


def test_variables_of_a_template_of_version_1_are_found():
    """The template makes its variables in another order than it lists them eagerly."""
    batches = points_and_classes()

    def network(points: Any) -> tf.Tensor:
        kernel = v1.get_variable("kernel", [4, 3])
        return points @ kernel + v1.get_variable("bias", [3], initializer=v1.zeros_initializer())

    def build() -> Any:
        template = v1.make_template("network", network)
        template(batches[0][0])
        return template

    training = parity.Training(
        build, lambda model, x, y: cross_entropy(model(x), y), momentum, batches
    )
    report = parity.assert_parity(training)
    assert [name.split("/")[-1] for name in report.variables] == ["kernel", "bias"]


def test_keras_models_and_optimizers_are_trained():
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    def build() -> Any:
        dense = keras.layers.Dense
        model = keras.Sequential([dense(5, activation="tanh"), dense(3)])
        model.build([None, 4])
        return model

    training = parity.Training(
        build,
        lambda model, x, y: cross_entropy(model(x), y),
        lambda: keras.optimizers.SGD(0.5, momentum=0.9),
        points_and_classes(),
        v1_optimizer=momentum,
    )
    assert len(parity.assert_parity(training).setups) == 7


@needs_keras3  # The losses of Keras 2 refuse to divide.
def test_losses_of_keras_that_divide_by_the_number_of_replicas_are_known():
    import keras

    loss = keras.losses.MeanSquaredError()
    points = np.float32([[1, 0], [0, 1], [1, 1], [2, 1]])

    def described(**arguments: Any) -> parity.Training:
        return parity.Training(
            lambda: tf.Variable([[0.0], [0.0]]),
            lambda model, x, y: loss(y, x @ model),
            descent,
            [(points, points @ np.float32([[1], [-2]]))] * 3,
            **arguments,
        )

    setups = [parity.mirrored(2), parity.mirrored(2, 2), parity.towers(2)]
    parity.assert_parity(described(divided_by_replicas=True), setups)
    text = str(parity.compare(described(), setups))
    for name in ("MirroredStrategy with 2 replicas", f"{setups[1].name}"):
        assert f"{name}: the ratio is 1/2. Probably the loss is divided by the number of" in text
    assert text.count("Probably") == 2


def test_parts_may_be_nested_and_labels_none():
    batch = {"x": np.float32([[1, 2], [3, 4]]), "scale": np.float32([1, 2])}

    def loss(model: Any, features: Any, labels: Any) -> tf.Tensor:
        assert labels is None
        return tf.reduce_mean(features["scale"] * tf.linalg.matvec(features["x"], model))

    training = parity.Training(lambda: tf.Variable([1.0, 2.0]), loss, descent, [(batch, None)] * 2)
    parity.assert_parity(training, tolerance=0)


def only(report: Report, setup: str) -> Difference:
    """Returns the one difference from the baseline, which is that of a setup."""
    found = [each for each in report.differences if each.second == "one big batch"]
    assert [each.first for each in found] == [setup], str(report)
    return found[0]


def test_a_loss_that_replicas_scale_twice_is_found():
    def loss(*given: Any) -> tf.Tensor:
        return mean_of_products(*given) / tf.distribute.get_strategy().num_replicas_in_sync

    report = parity.compare(exact(loss=loss))
    found = only(report, "MirroredStrategy with 2 replicas")
    assert (found.step, found.ratio) == (1, 0.5)
    assert found.amount > 10_000 * found.tolerance
    assert "The update of MirroredStrategy with 2 replicas is 0.50 times that of" in str(report)
    assert report.groups[1] == ["MirroredStrategy with 2 replicas"]


def test_a_loss_that_one_replica_scales_twice_is_found():
    def loss(model: Any, rows: Any, factors: Any) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        return mean_of_products(model, rows, factors) * tf.where(tf.equal(replica, 1), 0.5, 1.0)

    report = parity.compare(exact(loss=loss), [parity.mirrored(2), parity.accumulators(2)])
    found = only(report, "MirroredStrategy with 2 replicas")
    assert (found.step, found.variable, found.amount) == (1, "vector", 0.5)
    # Half of the second replica's gradient is missing, times the learning rate: for row 3 of the
    # table, which only this replica looks up three times, and for the vector's second element.
    missing = report.distances(found.first)[1]
    assert missing.tolist() == [0.5 * 0.5 * 3 / 4, 0.5 * 0.5 * 8 / 4]


def with_dropped_gradients(training: parity.Training) -> parity.Run:
    """Forgets the local step of the second micro-batch, whose gradients are stale after a step."""
    model, optimizer = training.new_model(), training.optimizer()
    vector = model.variables[1]
    accumulator = tf_condacc.ConditionalAccumulator(vector.dtype, vector.shape)

    def step(rows: Any, factors: Any) -> None:
        for half, local_step in ((slice(0, 2), accumulator.global_step()), (slice(2, 4), 0)):
            ((gradient, _),) = training.gradients(model, rows[half], factors[half])
            accumulator.apply_grad(gradient, local_step)
        optimizer.apply_gradients([(accumulator.take_grad(1), vector)])

    return parity.Run(model.variables, step)


def test_a_gradient_that_is_dropped_is_found_from_its_step():
    def loss(model: Any, rows: Any, factors: Any) -> tf.Tensor:
        frozen = {"table": tf.stop_gradient(model["table"]), "vector": model["vector"]}
        return mean_of_products(frozen, rows, factors)

    setup = parity.Setup("my loop", with_dropped_gradients)
    report = parity.compare(exact(loss=loss), [parity.accumulators(2), setup])
    found = only(report, "my loop")
    assert (found.step, found.variable, found.size) == (2, "vector", 2)
    assert "my loop and one big batch differ from step 2 on, most in vector" in str(report)


def test_batch_statistics_are_found():
    def loss(model: Any, points: Any, classes: Any) -> tf.Tensor:
        return cross_entropy(scores(model, points, normalize=True), classes)

    report = parity.compare(rounded(loss=loss))
    whole, divided = report.groups
    assert whole == ["one big batch", "the batch in reverse", "OneDeviceStrategy"]
    assert len(divided) == 4
    assert all(each.ratio is None and each.step == 1 for each in report.differences)
    assert "as with batch statistics" in str(report)
    for setup in divided:
        assert setup in report.hints[0]


def test_random_numbers_are_found():
    def loss(model: Any, points: Any, classes: Any) -> tf.Tensor:
        return cross_entropy(scores(model, tf.nn.dropout(points, 0.5)), classes)

    report = parity.compare(rounded(loss=loss), [reversed_batch()])
    assert "Setups that take the batch as a whole differ." in str(report)
    assert "random numbers" in str(report)


def with_accumulators_of_tensorflow(training: parity.Training) -> parity.Run:
    """Averages sparse gradients with TensorFlow's own accumulator, which works in sessions only."""
    with tf.Graph().as_default():
        model = training.new_model()
        table, _ = model.variables
        rows = v1.placeholder(tf.int64, [2, 2])
        factors = v1.placeholder(tf.float32, [2])
        ((gradient, _),) = training.gradients(model, rows, factors)
        accumulator = v1.SparseConditionalAccumulator(tf.float32, table.shape)
        step_placeholder = v1.placeholder(tf.int64, [])
        apply = accumulator.apply_indexed_slices_grad(gradient, step_placeholder)
        mean = accumulator.take_indexed_slices_grad(2)
        update = training.new_v1_optimizer("original").apply_gradients([(mean, table)])
        session = v1.Session()
        session.run(v1.global_variables_initializer())
    steps = iter(range(10))

    def step(all_rows: Any, all_factors: Any) -> None:
        local_step = next(steps)
        for half in (slice(0, 2), slice(2, 4)):
            feed = {rows: all_rows[half], factors: all_factors[half], step_placeholder: local_step}
            session.run(apply, feed)
        session.run(update)

    return parity.Run(model.variables, step, lambda: session.run(model.variables), session.close)


def test_means_of_rows_are_found_to_differ_from_the_mean_of_a_batch():
    """Rows 2 and 3 are in both halves of the batch, and the others in one, so only they differ."""

    def loss(model: Any, rows: Any, factors: Any) -> tf.Tensor:
        frozen = {"table": model["table"], "vector": tf.stop_gradient(model["vector"])}
        return mean_of_products(frozen, rows, factors)

    # The original requires sorted rows without repeats within a gradient.
    rows = np.array([[0, 1], [2, 3], [2, 3], [4, 5]])
    batches = [(rows, np.float32([2, 2, 2, 2]))] * 3

    def build() -> dict[str, tf.Variable]:
        table = tf.Variable(tf.ones([6, 2]), name="table")
        return {"table": table, "vector": tf.Variable([1.0, -1.0], name="vector")}

    setups = [
        parity.accumulators(2),
        parity.sync_replicas(2),
        parity.accumulators(2, sparse_reduction="MEAN"),
        parity.sync_replicas(2, sparse_reduction="MEAN"),
        parity.Setup("TensorFlow's accumulator", with_accumulators_of_tensorflow),
    ]
    training = exact(build=build, loss=loss, batches=batches, optimizer=descent)
    report = parity.compare(training, setups, tolerance=0)
    assert report.groups == [
        [setup.name for setup in [big_batch(), *setups[:2]]],
        [setup.name for setup in setups[2:]],
    ]
    for found in report.differences:
        assert (found.step, found.variable, found.ratio) == (1, "table", 2.0), str(report)
        assert (found.num_elements, found.size) == (8, 12)  # Rows 0, 1, 4 and 5.
