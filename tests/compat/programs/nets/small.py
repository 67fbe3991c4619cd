"""A network of slim, as model zoos have them."""

import tensorflow as tf

slim = tf.contrib.slim


def small_arg_scope(weight_decay=0.0):
    with slim.arg_scope(
        [slim.fully_connected],
        activation_fn=None,
        weights_initializer=tf.zeros_initializer(),
        weights_regularizer=slim.l2_regularizer(weight_decay) if weight_decay else None,
    ) as scope:
        return scope


def small(inputs, num_outputs=1, scope="small"):
    with tf.variable_scope(scope):
        return slim.fully_connected(inputs, num_outputs, scope="logits")
