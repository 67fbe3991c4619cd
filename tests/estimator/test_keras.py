"""Tests of Keras 3 layers in a model_fn, in processes of their own.

The processes of the other tests do not import Keras. With TF_USE_LEGACY_KERAS, which they have,
TensorFlow does not import Keras 3 by itself.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.isolated import isolated
from tests.support.tower_support import Recording, X, cpus
from tests.support.versions import needs_keras3
from tf_condacc import estimator
from tf_condacc.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    """Builds a model whose kernel starts at zero; each step subtracts the mean of the features."""
    import keras

    x = features["x"]
    if mode == ModeKeys.TRAIN and hasattr(keras, "random"):
        # This uses Keras's global generator, which has a variable.
        x += 0 * keras.random.uniform([])
    y = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(x)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(y)
    step = v1.train.get_or_create_global_step()
    train = tf_condacc.TowerOptimizer(Recording).minimize(loss, global_step=step)
    metrics = {"mean": v1.metrics.mean(y)}
    return EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def input_fn():
    return {"x": tf.constant(X)}


def run_from_end_to_end(folder: Path, package: Any = estimator) -> None:
    config = package.RunConfig(tf_random_seed=1)
    model = package.Estimator(model_fn, model_dir=str(folder), config=config)
    for _ in range(2):
        model.train(input_fn, steps=1)
    kernel = -2 * X.mean(axis=0)
    assert model.get_variable_value("dense/kernel").ravel().tolist() == kernel.tolist()
    assert model.get_variable_value("global_step") == 2

    values = model.evaluate(input_fn, steps=1)
    assert values["mean"] == values["loss"] == (X @ kernel).mean()
    predictions = next(model.predict(input_fn, yield_single_examples=False))
    assert predictions["y"].ravel().tolist() == (X @ kernel).tolist()

    receive = package.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 3])})
    loaded = tf.saved_model.load(model.export_saved_model(f"{folder}/export", receive))
    y = loaded.signatures["serving_default"](x=tf.constant(X))["y"]
    assert y.numpy().ravel().tolist() == (X @ kernel).tolist()


@isolated({"TF_USE_LEGACY_KERAS": "0"}, alone=True)
def test_a_model_with_keras_layers_runs_from_end_to_end(tmp_path):
    import keras

    assert [keras.layers.Dense(1).name for _ in range(2)] == ["dense", "dense_1"]
    run_from_end_to_end(tmp_path)
    assert keras.layers.Dense(1).name == "dense_2"


@pytest.mark.long
@isolated({"TF_USE_LEGACY_KERAS": "0"}, alone=True)
def test_a_model_with_keras_layers_runs_with_tensorflow_estimator(tmp_path):
    from tf_condacc import compat

    with compat.installed():
        run_from_end_to_end(tmp_path, v1.estimator)


@needs_keras3
@isolated(alone=True)
def test_a_model_fn_may_be_the_first_to_import_keras(tmp_path):
    assert "keras" not in sys.modules
    run_from_end_to_end(tmp_path)
    assert sys.modules["keras"].layers.Dense(1).name == "dense"


@isolated({"TF_USE_LEGACY_KERAS": "0"}, alone=True)
def test_keras_layers_in_towers_run_from_end_to_end_with_a_warning(tmp_path):
    """Trains a kernel for each tower, whose gradient is half the mean of the tower's part."""
    warnings: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("tf_condacc").addHandler(handler)
    session_config = v1.ConfigProto(device_count={"CPU": 2})
    model = Estimator(
        tf_condacc.replicate_model_fn(model_fn, devices=cpus(2)),
        model_dir=str(tmp_path),
        config=RunConfig(session_config=session_config),
    )
    warnings.clear()
    for steps in (1, 2):
        model.train(input_fn, steps=1)
        (warning,) = [text for text in warnings if "variable" in text]
        assert "Tower 1" in warning and "tower_1/dense_1/kernel:0" in warning
        warnings.clear()
        for name, part in (("dense/kernel", X[:2]), ("tower_1/dense_1/kernel", X[2:])):
            expected = -steps * part.mean(axis=0) / 2
            np.testing.assert_array_equal(model.get_variable_value(name).ravel(), expected)
    model.evaluate(input_fn, steps=1)
    predictions = next(model.predict(input_fn, yield_single_examples=False))
    kernels = [-part.mean(axis=0) for part in (X[:2], X[2:])]
    expected = [X[:2] @ kernels[0], X[2:] @ kernels[1]]
    assert predictions["y"].ravel().tolist() == np.concatenate(expected).tolist()
