"""A regression in eight layers, with and without normalization."""

import numpy as np
import tensorflow as tf

NUM_LAYERS = 8
NUM_UNITS = 6


def data(number, seed):
    random = np.random.RandomState(seed)
    x = random.uniform(-7, 10, [number, 1])
    return x.astype(np.float32), (x**2 - 5 + random.normal(0, 2, x.shape)).astype(np.float32)


class Network:
    def __init__(self, name, normalized):
        self._normalized = normalized
        self._is_training = tf.placeholder(tf.bool, [])
        self._x = tf.placeholder(tf.float32, [None, 1])
        self._y = tf.placeholder(tf.float32, [None, 1])
        with tf.variable_scope(name):
            self.inputs = [self._normalize(self._x)]
            for layer in range(NUM_LAYERS):
                net = self._dense(self.inputs[-1], NUM_UNITS, seed=layer)
                self.inputs.append(tf.nn.relu(self._normalize(net)))
            output = self._dense(self.inputs[-1], 1, seed=NUM_LAYERS)
            self.loss = tf.losses.mean_squared_error(self._y, output)
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, name)):
                self.train = tf.train.AdamOptimizer(0.02).minimize(self.loss)

    def feed(self, x, y, is_training):
        return {self._x: x, self._y: y, self._is_training: is_training}

    def _dense(self, x, units, seed):
        return tf.layers.dense(
            x,
            units,
            kernel_initializer=tf.random_normal_initializer(0.0, 0.4, seed=seed),
            bias_initializer=tf.constant_initializer(-0.2),
        )

    def _normalize(self, x):
        if not self._normalized:
            return x
        return tf.layers.batch_normalization(x, momentum=0.4, training=self._is_training)


def main():
    networks = [Network("plain", False), Network("normalized", True)]
    x, y = data(96, seed=1)
    test_x, test_y = data(32, seed=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(4):
            for start in range(0, len(x), 32):
                batch = slice(start, start + 32)
                for network in networks:
                    session.run(network.train, network.feed(x[batch], y[batch], True))
            for network in networks:
                feed = network.feed(test_x, test_y, False)
                loss, inputs = session.run([network.loss, network.inputs], feed)
                print(epoch, loss, [float(value.std()) for value in inputs])


if __name__ == "__main__":
    main()
