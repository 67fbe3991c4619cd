"""A linear model that an Estimator trains, with towers on virtual CPUs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import cpus
from tf_condacc.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, export

v1 = tf.compat.v1
X = np.arange(16, dtype=np.float32).reshape(8, 2) / 16
Y = X @ [1.0, -2.0]


def model_fn(features, labels, mode, params):
    w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    y = tf.reduce_sum(features["x"] * w, axis=1)
    if mode == ModeKeys.PREDICT:
        predictions = {"y": y, "negative": -y}
        outputs = {"linear": export.PredictOutput({"y": y})}
        return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = tf.reduce_mean((y - labels) ** 2)
    optimizer = tf_condacc.TowerOptimizer(v1.train.MomentumOptimizer(params["rate"], 0.9))
    step = v1.train.get_global_step()
    metrics = {"mse": v1.metrics.mean_squared_error(labels, y)}
    return EstimatorSpec(
        mode, loss=loss, train_op=optimizer.minimize(loss, step), eval_metric_ops=metrics
    )


def input_fn(repeats: int = 1, batch: int = 4):
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y.astype(np.float32)))
    return data.repeat(repeats).batch(batch)


def new_estimator(folder, num_towers: int = 2, **config) -> Estimator:
    config.setdefault("session_config", v1.ConfigProto(device_count={"CPU": num_towers}))
    return Estimator(
        tf_condacc.replicate_model_fn(model_fn, devices=cpus(num_towers)),
        model_dir=str(folder),
        config=RunConfig(tf_random_seed=1, **config),
        params={"rate": 0.1},
    )
