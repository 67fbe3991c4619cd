"""Trains a slim network with an optimizer that drops stale gradients, in a monitored session."""

import numpy as np
import tensorflow as tf
from nets import small
from tensorflow.contrib import slim
from tensorflow.contrib.opt import DropStaleGradientOptimizer

LEARNING_RATE = 0.25


def train(steps):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        inputs = tf.constant([[1.0, 0.0], [0.0, 1.0]])
        with slim.arg_scope(small.small_arg_scope()):
            outputs = small.small(inputs)
        slim.losses.mean_squared_error(outputs, tf.constant([[2.0], [4.0]]))
        loss = slim.losses.get_total_loss()
        opt = tf.contrib.opt.DropStaleGradientOptimizer(
            tf.train.GradientDescentOptimizer(LEARNING_RATE), staleness=0
        )
        assert isinstance(opt, DropStaleGradientOptimizer)
        grads = opt.compute_gradients(loss)
        clipped, _ = tf.clip_by_global_norm([grad for grad, _ in grads], 100.0)
        train_op = opt.apply_gradients(
            zip(clipped, [v for _, v in grads], strict=True), global_step=step
        )
        weights = slim.get_variables_by_name("weights")[0]
        hooks = [tf.train.StopAtStepHook(last_step=steps)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(train_op)
                values = sess.run_step_fn(lambda step_context: step_context.session.run(weights))
        return np.ravel(values).tolist()


def batch_norm():
    with tf.Graph().as_default():
        net = tf.contrib.layers.batch_norm(tf.constant([[1.0], [3.0]]), is_training=True)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return [len(updates), np.round(sess.run(net), 2).tolist()]
