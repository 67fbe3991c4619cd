"""Tests of the warning about variables that towers do not share."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import (
    ModeKeys,
    Recording,
    initialized_session,
    replicate,
    weighted_sum,
)
from tf_condacc import estimator

v1 = tf.compat.v1


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.name == "tf_condacc"]
    return [text for text in texts if "trainable variable" in text]


def train(loss, optimizer):
    return tf_condacc.TowerOptimizer(optimizer).minimize(loss)


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT])
def test_a_trainable_variable_of_a_later_tower_is_warned_of(mode, caplog):
    def model_fn(features, labels, mode):
        with v1.name_scope("layer"):
            own = [tf.Variable([1.0, 1.0], name=name) for name in ("kernel", "bias")]
        loss = weighted_sum() + tf.reduce_sum(own)
        trains = train(loss, Recording()) if mode == ModeKeys.TRAIN else None
        return estimator.EstimatorSpec(mode, {"x": tf.zeros([1])}, loss, trains)

    with tf.Graph().as_default():
        replicate(model_fn, 3, features=None, mode=mode)
    (text,) = warnings_of(caplog)
    assert "Tower 1 has made 2 trainable variable(s)" in text
    assert "the first of which is tower_1/layer/kernel:0" in text


def test_variables_by_get_variable_slots_metrics_and_counters_are_not_warned_of(caplog):
    class WithCounter(v1.train.AdamOptimizer):
        """An optimizer with a counter variable, which TensorFlow takes for a trainable one."""

        def apply_gradients(self, *args, **kwargs):
            tf.Variable(0.0, name="counter")
            return super().apply_gradients(*args, **kwargs)

    def model_fn(features, labels, mode):
        loss = weighted_sum("a") + weighted_sum("b")
        tf.Variable(1.0, trainable=False, name="here")
        metrics = {"mean": v1.metrics.mean(loss)}
        rate = tf.Variable(0.1, name="rate")
        return estimator.EstimatorSpec(
            mode, loss=loss, train_op=train(loss, WithCounter(rate)), eval_metric_ops=metrics
        )

    with tf.Graph().as_default():
        replicate(model_fn, 2, features=None)
        names = {variable.op.name for variable in v1.trainable_variables()}
    assert names == {"a", "b", "rate", "tower_1/rate", "counter"}
    assert warnings_of(caplog) == []


def test_a_layer_that_the_towers_share_is_not_warned_of(caplog):
    layers = []

    def model_fn(features, labels, mode):
        if not layers:
            layers.append(tf.Variable([0.0, 0.0]))
        loss = tf.reduce_sum(layers[0] * [1.0, 2.0])
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss, Recording()))

    with tf.Graph().as_default():
        spec = replicate(model_fn, 2, features=None)
        with initialized_session() as session:
            session.run(spec.train_op)
            assert session.run(layers[0]).tolist() == [-2.0, -4.0]
    assert warnings_of(caplog) == []


def test_one_device_is_not_warned_of(caplog):
    def model_fn(features, labels, mode):
        loss = tf.reduce_sum(tf.Variable([1.0]))
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss, Recording()))

    with tf.Graph().as_default():
        replicate(model_fn, 1, features=None)
    assert warnings_of(caplog) == []
