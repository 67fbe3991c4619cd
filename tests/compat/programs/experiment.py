"""Trains an Experiment as programs of 2017 do, and shows what the chief has trained."""

import sys

import tensorflow as tf
from tensorflow.contrib.learn.python.learn import learn_runner
from tensorflow.contrib.training import HParams


def model_fn(features, labels, mode, params):
    slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    predictions = slope * features["x"]
    if mode == tf.contrib.learn.ModeKeys.INFER:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": predictions})
    loss = tf.reduce_mean(tf.abs(labels - predictions))
    train_op = None
    if mode == tf.contrib.learn.ModeKeys.TRAIN:
        step = tf.train.get_global_step()
        train_op = tf.train.GradientDescentOptimizer(params.rate).minimize(loss, global_step=step)
    metrics = {"error": tf.metrics.mean(labels - predictions)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn(epochs=None):
    data = tf.data.Dataset.from_tensors(({"x": tf.constant([1.0, 3.0])}, tf.constant([4.0, 12.0])))
    features, labels = data.repeat(epochs).make_one_shot_iterator().get_next()
    return features, labels


def experiment_fn(run_config, hparams):
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=hparams)
    return tf.contrib.learn.Experiment(
        estimator=estimator,
        train_input_fn=input_fn,
        eval_input_fn=lambda: input_fn(1),
        train_steps=4,
        eval_steps=None,
        min_eval_frequency=1,
    )


def main(argv):
    config = tf.contrib.learn.RunConfig(model_dir=argv[1], save_checkpoints_steps=2)
    schedule = argv[2] if len(argv) > 2 else None
    result = learn_runner.run(
        experiment_fn, run_config=config, hparams=HParams(rate=0.25), schedule=schedule
    )
    if config.is_chief:
        values = tf.train.load_checkpoint(argv[1])
        print("slope:", values.get_tensor("slope").tolist(), flush=True)
        if isinstance(result, tuple):
            metrics, exports = result
            print("error:", float(metrics["error"]), int(metrics["global_step"]), exports)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main(sys.argv)
