"""Accumulates gradients of micro-batches in accumulators, dense and sparse."""

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import data_flow_ops


def train(rounds):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
        table = tf.get_variable("table", [4, 1], initializer=tf.zeros_initializer())
        rows = tf.placeholder(tf.int32, [None])
        target = tf.placeholder(tf.float32, [2])
        loss = tf.reduce_sum(target * weights) + tf.reduce_sum(tf.gather(table, rows))
        opt = tf.train.GradientDescentOptimizer(1.0)
        apply_ops, taken = [], []
        for grad, var in opt.compute_gradients(loss):
            shared_name = var.name + "/grad_accum"
            if isinstance(grad, ops.IndexedSlices):
                accum = tf.SparseConditionalAccumulator(
                    grad.dtype, shape=(), shared_name=shared_name
                )
                apply_ops.append(accum.apply_indexed_slices_grad(grad, local_step=step))
                taken.append((accum.take_indexed_slices_grad(2), var))
            else:
                accum = data_flow_ops.ConditionalAccumulator(
                    grad.dtype, shape=var.get_shape(), shared_name=shared_name
                )
                apply_ops.append(accum.apply_grad(grad, local_step=step))
                taken.append((accum.take_grad(2), var))
        accumulate = tf.group(*apply_ops)
        update = opt.apply_gradients(taken, global_step=step)
        with tf.train.MonitoredTrainingSession() as sess:
            for _ in range(rounds):
                sess.run(accumulate, {target: [1.0, 2.0], rows: [3, 1]})
                sess.run(accumulate, {target: [3.0, 6.0], rows: [1, 1]})
                sess.run(update)
            values = sess.run([weights, table, step])
        return [value.tolist() for value in values]
