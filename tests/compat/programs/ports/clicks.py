"""A model of clicks, with layers of tf.contrib and a limit on the staleness of gradients."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers
from tensorflow.contrib.framework import arg_scope, get_or_create_global_step

flags = tf.app.flags
flags.DEFINE_integer("steps", 8, "Number of steps.")
FLAGS = flags.FLAGS


def batches():
    random = np.random.RandomState(0)
    x = random.randn(64, 4).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.int64)
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
    return data.make_one_shot_iterator().get_next()


def model(x):
    with arg_scope(
        [layers.fully_connected],
        weights_initializer=layers.xavier_initializer(seed=1),
        weights_regularizer=layers.l2_regularizer(1e-3),
        normalizer_fn=layers.batch_norm,
        normalizer_params={"is_training": True, "updates_collections": None},
    ):
        net = layers.stack(layers.flatten(x), layers.fully_connected, [8, 4], scope="fc")
    return layers.linear(net, 2, weights_initializer=layers.xavier_initializer(seed=2))


def main(unused_argv):
    x, y = batches()
    logits = model(x)
    tf.losses.sparse_softmax_cross_entropy(y, logits)
    loss = tf.losses.get_total_loss()
    accuracy = tf.contrib.metrics.accuracy(tf.argmax(logits, 1), y)
    step = get_or_create_global_step()
    optimizer = tf.contrib.opt.DropStaleGradientOptimizer(tf.train.AdamOptimizer(0.05), 2)
    train_op = tf.contrib.slim.learning.create_train_op(loss, optimizer, global_step=step)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            _, value, share, number = session.run([train_op, loss, accuracy, step])
            print(number, value, share)


if __name__ == "__main__":
    tf.app.run()
