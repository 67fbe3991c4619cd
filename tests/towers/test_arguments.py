"""Tests of the arguments of replicate_model_fn: functions, params, config, devices."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import (
    ModeKeys,
    X,
    cpus,
    initialized_session,
    linear_model_fn,
    replicate,
    trained,
)
from tf_condacc import estimator

v1 = tf.compat.v1


def test_params_and_config_are_copied_once_and_given_where_named():
    given = []

    def model_fn(features, labels, mode, params, config):
        given.append((params, config))
        params["seen"] = params.get("seen", 0) + 1
        return linear_model_fn(features, labels, mode)

    params, config = {"rate": [1]}, {"dir": "x"}
    original = copy.deepcopy(params)
    with tf.Graph().as_default():
        replicate(model_fn, 3, tf.ones([3, 3]), params=params, config=config)
    assert params == original
    assert [p["seen"] for p, _ in given] == [3, 3, 3]
    assert given[0][0] is given[2][0] and given[0][1] is given[2][1] is not config

    bound = functools.partial(model_fn, params={"mine": 1})
    with tf.Graph().as_default():
        replicate(bound, 2, tf.constant(X), params={"other": 2})
    assert given[-1][0] == {"mine": 1, "seen": 2}


def test_the_older_form_brings_the_optimizer():
    def model_fn(features, labels, mode, params):
        spec = linear_model_fn_without_optimizer(features)
        return estimator.EstimatorSpec(mode, loss=spec, train_op=tf.no_op())

    def linear_model_fn_without_optimizer(features):
        w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
        return tf.reduce_mean(tf.reduce_sum(features * w, axis=1))

    def optimizer_fn(params):
        return v1.train.GradientDescentOptimizer(params["rate"])

    forms = [
        lambda devices: tf_condacc.replicate_model_fn(model_fn, optimizer_fn, devices),
        lambda devices: tf_condacc.replicate_model_fn(
            model_fn, optimizer_fn=optimizer_fn, devices=devices
        ),
    ]
    for form in forms:
        for num_towers in (1, 2):
            with tf.Graph().as_default():
                spec = form(cpus(num_towers))(
                    tf.constant(X), None, ModeKeys.TRAIN, params={"rate": 0.5}
                )
                with initialized_session() as session:
                    session.run(spec.train_op)
                    (value,) = session.run(v1.trainable_variables())
                    assert session.run(v1.train.get_global_step()) == 1
            # The update is the sum of the towers' gradients, each of which is the mean of its part.
            np.testing.assert_allclose(value, -0.5 * num_towers * X.mean(axis=0), rtol=1e-6)


def _with_params(features, labels, mode, params):
    assert params == {"rate": 2}
    return linear_model_fn(features, labels, mode)


class _Model:
    def method(self, features, labels, mode, params=None):
        return _with_params(features, labels, mode, params)

    __call__ = method


@pytest.mark.parametrize(
    "model_fn",
    [
        _Model().method,
        _Model(),
        functools.partial(
            lambda model, features, labels, mode, params: model(features, labels, mode, params),
            _Model(),
        ),
        functools.wraps(_with_params)(lambda *args, **kwargs: _with_params(*args, **kwargs)),
        lambda features, labels, mode, **kwargs: _with_params(
            features,
            labels,
            mode,
            kwargs or {"rate": 2},  # Only arguments that are named in the signature are passed.
        ),
    ],
    ids=["method", "object", "partial", "wrapped", "keywords"],
)
def test_any_function_may_be_a_model_fn(model_fn):
    (value,) = trained(model_fn, 2, X, params={"rate": 2}, config="given")
    np.testing.assert_allclose(value, -2 * X.mean(axis=0), rtol=1e-6)


def test_a_device_may_have_several_towers():
    (value,) = trained(linear_model_fn, 2, X, devices=["/CPU:0", "/CPU:0"])
    np.testing.assert_allclose(value, -2 * X.mean(axis=0), rtol=1e-6)


def test_one_graph_may_train_evaluate_and_predict():
    def model_fn(features, labels, mode):
        spec = linear_model_fn(features, labels, mode)
        return spec._replace(eval_metric_ops={"mean": v1.metrics.mean(spec.predictions)})

    with tf.Graph().as_default():
        with v1.variable_scope("", reuse=v1.AUTO_REUSE):
            modes = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
            train, test, predict = (
                replicate(model_fn, 2, tf.constant(X), mode=mode) for mode in modes
            )
        (value, update) = test.eval_metric_ops["mean"]
        with initialized_session() as session:
            session.run(train.train_op)
            session.run(update)
            expected = X @ (-2 * X.mean(axis=0))
            np.testing.assert_allclose(session.run(predict.predictions), expected, rtol=1e-6)
            np.testing.assert_allclose(session.run(value), expected.mean(), rtol=1e-6)
