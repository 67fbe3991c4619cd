"""A program with mistakes, each of which a type checker must find. It is never run."""

import tensorflow as tf

import tf_condacc

weights = tf.Variable(tf.zeros([2]))
gradient = tf.constant([1.0, 0.0])
optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)

micro_batches = tf_condacc.GradientAccumulator([weights], num_micro_batches=2)
micro_batches.apply_gradients(optimizer, [gradient], weight=3)
tf_condacc.GradientAccumulator([weights])  # An argument is missing.
tf_condacc.GradientAccumulator([weights], num_microbatches=2)  # The keyword is wrong.
tf_condacc.GradientAccumulator([weights], num_micro_batches=None)  # It must be a number.
tf_condacc.GradientAccumulator(weights.shape.rank, num_micro_batches=2)  # It is no sequence.
micro_batches.reset(0)  # There is one argument too many.

accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[2])
accumulator.apply_grad([1.0, 0.0], local_step=0)
accumulator.apply_grad()  # An argument is missing.
accumulator.apply_grad(gradient, step=0)  # The keyword is wrong.
accumulator.take_grad(None)  # It must be a number.
accumulator.take_grad(1, 2, 3)  # There is one argument too many.
tf_condacc.ConditionalAccumulator(tf.float32, shape=2)  # It must be a sequence.
