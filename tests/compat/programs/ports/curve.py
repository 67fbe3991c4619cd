"""A curve that slim learns, and the model of its checkpoint."""

import tempfile

import numpy as np
import tensorflow as tf

slim = tf.contrib.slim


def curve(number, seed):
    random = np.random.RandomState(seed)
    x = random.uniform(0.0, 3.0, [number, 1])
    y = np.sin(x) + 0.1 * random.randn(number, 1)
    return tf.constant(x, tf.float32), tf.constant(y, tf.float32)


def model(x, is_training):
    with tf.variable_scope("regression", values=[x]):
        with slim.arg_scope(
            [slim.fully_connected],
            activation_fn=tf.nn.relu,
            weights_initializer=slim.xavier_initializer(seed=1),
            weights_regularizer=slim.l2_regularizer(0.01),
        ):
            net = slim.fully_connected(x, 16, scope="first")
            net = slim.dropout(net, 0.8, is_training=is_training, seed=2)
            net = slim.fully_connected(net, 8, scope="second")
            return slim.fully_connected(net, 1, activation_fn=None, scope="prediction")


def train(folder):
    with tf.Graph().as_default():
        x, y = curve(64, seed=0)
        tf.losses.mean_squared_error(y, model(x, is_training=True))
        loss = tf.losses.get_total_loss()
        step = slim.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True)
        tf.summary.scalar("rate", rate)
        train_op = slim.learning.create_train_op(loss, tf.train.AdamOptimizer(rate))
        return slim.learning.train(
            train_op, folder, number_of_steps=20, save_summaries_secs=5, log_every_n_steps=10
        )


def evaluate(folder):
    with tf.Graph().as_default():
        x, y = curve(32, seed=1)
        predictions = model(x, is_training=False)
        values, updates = slim.metrics.aggregate_metric_map(
            {
                "squared error": slim.metrics.streaming_mean_squared_error(predictions, y),
                "absolute error": slim.metrics.streaming_mean_absolute_error(predictions, y),
            }
        )
        restore = slim.assign_from_checkpoint_fn(
            tf.train.latest_checkpoint(folder), slim.get_model_variables()
        )
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            restore(session)
            session.run(list(updates.values()))
            return sorted(session.run(values).items())


def main():
    folder = tempfile.mkdtemp()
    print(train(folder))
    print(tf.train.list_variables(folder))
    for name, value in evaluate(folder):
        print(name, value)


if __name__ == "__main__":
    main()
