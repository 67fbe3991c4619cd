"""An Estimator trains a linear model on two devices, each with its part of every batch."""

import shutil
import tempfile

import numpy as np
import tensorflow as tf

X = np.array([[1, 0], [0, 1], [1, 1], [1, -1], [0, 2], [2, 0], [-1, 1], [0, 1]], np.float32)
Y = np.array([8, 16, 24, -8, 32, 16, 8, 16], np.float32)


def model_fn(features, labels, mode):
    weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
    predictions = {"y": tf.reduce_sum(features["x"] * weights, axis=1)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.mean_squared_error(labels, predictions["y"])
    metrics = {"mean": tf.metrics.mean(predictions["y"])}
    optimizer = tf.contrib.estimator.TowerOptimizer(tf.train.GradientDescentOptimizer(0.125))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(3).batch(8)


def main():
    folder = tempfile.mkdtemp()
    config = tf.estimator.RunConfig(
        model_dir=folder, session_config=tf.ConfigProto(device_count={"CPU": 2})
    )
    towers = tf.contrib.estimator.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])
    model = tf.estimator.Estimator(towers, config=config)
    model.train(input_fn)
    values = model.evaluate(input_fn, steps=1)
    step, loss, mean = values["global_step"], values["loss"], values["mean"]
    predictions = [float(each["y"]) for each in model.predict(input_fn)][:4]
    print(f"weights {model.get_variable_value('weights').tolist()}")
    print(f"step {step}, loss {loss:.3f}, mean {mean:.3f}")
    print(f"predictions {predictions}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
