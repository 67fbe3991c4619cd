"""Synchronous training of one worker on images in the format of MNIST."""

import gzip
import os
import struct

import numpy as np
import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

tf.app.flags.DEFINE_string("data_dir", "digits", "Folder of the images.")
tf.app.flags.DEFINE_integer("steps", 6, "Number of steps.")
FLAGS = tf.app.flags.FLAGS


def write_digits(folder):
    os.makedirs(folder, exist_ok=True)
    random = np.random.RandomState(0)
    for part, number in (("train", 60), ("t10k", 20)):
        labels = np.arange(number, dtype=np.uint8) % 10
        images = random.randint(0, 100, [number, 28, 28]).astype(np.uint8)
        images[np.arange(number), labels] += 150  # A bright row for each digit.
        for name, header, values in (
            ("images-idx3-ubyte.gz", [2051, number, 28, 28], images),
            ("labels-idx1-ubyte.gz", [2049, number], labels),
        ):
            with gzip.open(os.path.join(folder, part + "-" + name), "wb") as file:
                file.write(struct.pack(f">{len(header)}i", *header) + values.tobytes())


def main(_):
    write_digits(FLAGS.data_dir)
    mnist = input_data.read_data_sets(FLAGS.data_dir, one_hot=True, validation_size=10, seed=1)
    server = tf.train.Server.create_local_server()

    x = tf.placeholder(tf.float32, [None, 784])
    labels = tf.placeholder(tf.float32, [None, 10])
    weights = tf.Variable(tf.truncated_normal([784, 10], stddev=0.01, seed=2))
    biases = tf.Variable(tf.zeros([10]))
    logits = tf.nn.xw_plus_b(x, weights, biases)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    right = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))

    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=1, total_num_replicas=1
    )
    train = optimizer.minimize(loss, global_step=step)
    hooks = [optimizer.make_session_run_hook(True), tf.train.StopAtStepHook(FLAGS.steps)]
    with tf.train.MonitoredTrainingSession(server.target, is_chief=True, hooks=hooks) as session:
        while not session.should_stop():
            images, digits = mnist.train.next_batch(25)
            feed = {x: images, labels: digits}
            _, number, value = session.run([train, step, loss], feed)
            print(number, value)
        try:
            print(session.run(accuracy, {x: mnist.test.images, labels: mnist.test.labels}))
        except RuntimeError as error:
            print(error)


if __name__ == "__main__":
    tf.app.run()
