"""Tests a wrapper of an optimizer in five strategies: ``pytest examples/test_wrapper.py``."""

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import parity

v1 = tf.compat.v1
parity.use_logical_cpus(2)  # Before TensorFlow runs its first operation.


class NormedDescent(v1.train.Optimizer):
    """Divides each gradient by the root of a running mean of its squared norm."""

    def __init__(self):
        super().__init__(use_locking=False, name="NormedDescent")
        self._descent = v1.train.GradientDescentOptimizer(0.5)
        self._squares = []

    def build(self, variables):
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        self._squares = [tf.Variable(1.0, trainable=False, aggregation=first) for _ in variables]
        self.built = True

    def apply_gradients(self, pairs, global_step=None, name=None):
        pairs = list(pairs)
        if not self._squares:
            self.build([variable for _, variable in pairs])
        context = tf.distribute.get_replica_context()
        normed = []
        for (gradient, variable), square in zip(pairs, self._squares, strict=True):
            whole = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.convert_to_tensor(gradient))
            square = square.assign(0.9 * square + 0.1 * tf.reduce_sum(whole**2))
            normed.append((gradient * tf.math.rsqrt(square), variable))
        return self._descent.apply_gradients(normed, global_step)


def build():
    return tf.Variable([0.0, 0.0], name="weights")


def loss(weights, points, values):
    return tf.reduce_mean((tf.linalg.matvec(points, weights) - values) ** 2)


POINTS = np.float32([[1, 0], [0, 1], [1, 1], [2, 1]])
BATCHES = [(POINTS, POINTS @ np.float32([1, -2]))] * 4
central = tf.distribute.experimental.CentralStorageStrategy
SETUPS = [
    parity.one_device(),
    parity.mirrored(2),
    parity.under(lambda: central(["CPU:0", "CPU:1"]), "CentralStorageStrategy"),
    parity.multi_worker(2),
    parity.parameter_servers(2),
]


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_the_wrapper_learns_the_same_weights(setup):
    parity.assert_parity(parity.Training(build, loss, NormedDescent, BATCHES), [setup])
