"""Trains an Estimator on a cluster, and shows what the chief has trained."""

import sys

import tensorflow as tf

STEPS = 3


def model_fn(features, mode):
    weights = tf.get_variable("weights", [], initializer=tf.zeros_initializer())
    loss = weights * features
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensors(2.0).repeat()


def main(_):
    config = tf.estimator.RunConfig(sys.argv[1], experimental_max_worker_delay_secs=0)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    train_spec = tf.estimator.TrainSpec(input_fn, max_steps=STEPS)
    eval_spec = tf.estimator.EvalSpec(input_fn, steps=1)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    if config.is_chief:
        print("weights:", estimator.get_variable_value("weights").tolist(), flush=True)


if __name__ == "__main__":
    tf.app.run()
