"""Tests of evaluation with towers."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tower_support import ModeKeys, initialized_session, replicate
from tf_condacc import estimator

v1 = tf.compat.v1
SCORES = np.array([0.1, 0.9, 0.4, 0.7, 0.6, 0.2, 0.8, 0.3], np.float32)
LABELS = np.array([0, 1, 1, 1, 0, 0, 1, 0], np.int64)


def metrics_of(scores, labels):
    is_right = tf.cast(tf.equal(tf.cast(scores > 0.5, tf.int64), labels), tf.float32)
    return {
        "accuracy": v1.metrics.accuracy(labels, tf.cast(scores > 0.5, tf.int64)),
        "auc": v1.metrics.auc(labels, scores),
        "mean": v1.metrics.mean(scores),
        "rmse": v1.metrics.root_mean_squared_error(tf.cast(labels, tf.float32), scores),
        "right": v1.metrics.mean_tensor(is_right[:1]),
        "confusion": v1.metrics.mean_iou(labels, tf.cast(scores > 0.5, tf.int64), 2),
    }


def metric_model_fn(features, labels, mode):
    loss = tf.reduce_mean((features - tf.cast(labels, tf.float32)) ** 2)
    metrics = metrics_of(features, labels)
    return estimator.EstimatorSpec(mode, loss=loss, predictions=features, eval_metric_ops=metrics)


def evaluate(model_fn, num_towers: int, batches: int = 1, before=None) -> dict[str, np.ndarray]:
    """Returns the metrics and the loss of the last batch, with the scores split into batches."""
    with tf.Graph().as_default():
        if before is not None:
            before()
        scores = v1.placeholder(tf.float32, [len(SCORES) // batches])
        labels = v1.placeholder(tf.int64, [len(SCORES) // batches])
        spec = replicate(
            model_fn, num_towers, scores, labels, ModeKeys.EVAL, v1.losses.Reduction.MEAN
        )
        values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
        updates = [update for _, update in spec.eval_metric_ops.values()]
        with initialized_session() as session:
            parts = np.split(SCORES, batches), np.split(LABELS, batches)
            for part, truth in zip(*parts, strict=True):
                loss, _ = session.run([spec.loss, updates], {scores: part, labels: truth})
            return {"loss": loss, **session.run(values)}


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("num_towers", [2, 4])
def test_metrics_and_loss_are_those_of_the_whole_batch(num_towers: int, batches: int):
    expected = evaluate(metric_model_fn, 1, batches)
    got = evaluate(metric_model_fn, num_towers, batches)
    # The metric "right" uses the first example of each tower, so it depends on their number.
    for each in (expected, got):
        del each["right"]
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("num_towers", [2, 4])
def test_metrics_in_reference_variables_are_those_of_the_whole_batch(num_towers: int):
    def model_fn(features, labels, mode):
        with v1.variable_scope("", use_resource=False):
            large = {"large": v1.metrics.mean_tensor(tf.fill([30000], tf.reduce_mean(features)))}
            metrics = {**metrics_of(features, labels), **large}
        assert not hasattr(v1.local_variables()[-1], "handle")
        loss = tf.reduce_mean(features)
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    whole, merged = evaluate(model_fn, 1, batches=2), evaluate(model_fn, num_towers, batches=2)
    for name, expected in whole.items():
        if name != "right":  # The metric "right" depends on the first example of each tower.
            np.testing.assert_allclose(merged[name], expected, rtol=1e-5, err_msg=name)


def test_metric_variables_of_others_do_not_matter():
    def others():
        for k in range(3):
            v1.metrics.mean(tf.constant(float(k)), name="outside")

    expected = evaluate(metric_model_fn, 1)
    got = evaluate(metric_model_fn, 4, before=others)
    np.testing.assert_allclose(got["mean"], expected["mean"], rtol=1e-6)
    np.testing.assert_allclose(got["accuracy"], expected["accuracy"])


def test_the_spec_is_the_first_towers_with_one_update_for_all():
    specs = []

    def model_fn(features, labels, mode):
        specs.append(metric_model_fn(features, labels, mode))
        return specs[-1]

    with tf.Graph().as_default():
        spec = replicate(model_fn, 2, tf.constant(SCORES), tf.constant(LABELS), mode=ModeKeys.EVAL)
        assert spec.predictions is specs[0].predictions
        for name, (value, _) in spec.eval_metric_ops.items():
            assert value is specs[0].eval_metric_ops[name][0]
        assert len({update for _, update in spec.eval_metric_ops.values()}) == 1
        (update,) = {update for _, update in spec.eval_metric_ops.values()}
        assert update.name == "group_deps" and update.type == "NoOp"
        with initialized_session() as session:
            session.run(update)
            variables = v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
            left = [v for v in variables if v.op.name.startswith("tower_1/")]
            assert len(left) * 2 == len(variables)
            for value in session.run(left):
                assert not np.any(value)


TEXT = "Different `EstimatorSpec.eval_metric_ops` across `model_fn()` calls."


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([2, 3], "Expected 4 local variables, but got 5 instead. Tower 1 made 3, tower 0 made 2."),
        ([1, 3], "Expected 2 local variables, but got 4 instead. Tower 1 made 3, tower 0 made 1."),
    ],
)
def test_towers_with_different_numbers_of_metric_variables_are_refused(counts, expected: str):
    numbers = iter(counts)

    def model_fn(features, labels, mode):
        for k in range(next(numbers)):
            v1.Variable(float(k), collections=[v1.GraphKeys.METRIC_VARIABLES])
        return estimator.EstimatorSpec(mode, loss=tf.constant(0.0))

    with tf.Graph().as_default(), pytest.raises(ValueError, match=re.escape(f"{TEXT} {expected}")):
        replicate(model_fn, 2, features=None, mode=ModeKeys.EVAL)


@pytest.mark.parametrize("difference", ["name", "shape"])
def test_towers_with_different_metrics_are_refused(difference: str):
    number = iter(range(2))

    def model_fn(features, labels, mode):
        k = next(number)
        name = f"metric_{k}" if difference == "name" else "metric"
        metric = v1.metrics.mean_tensor(tf.zeros([1 + k * (difference == "shape")]))
        return estimator.EstimatorSpec(mode, loss=tf.constant(0.0), eval_metric_ops={name: metric})

    with tf.Graph().as_default(), pytest.raises(ValueError, match=re.escape(TEXT) + ".*ower 1"):
        replicate(model_fn, 2, features=None, mode=ModeKeys.EVAL)
