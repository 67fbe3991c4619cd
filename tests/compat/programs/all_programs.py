"""Runs the programs of this folder in one process, and shows what Python tells them."""

import json
import multiprocessing
import os
import sys
import threading
import time
from collections import Iterable  # noqa: UP035

import accumulators
import numpy as np
import slim_drop_stale
import tensorflow as tf
import towers

flags = tf.app.flags
flags.DEFINE_integer("steps", 2, "Number of steps.")
FLAGS = flags.FLAGS


def in_child(queue):
    queue.put([__name__, tf.__name__, tf.executing_eagerly(), accumulators.train(1)])


def in_new_process():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=in_child, args=(queue,))
    process.start()
    result = queue.get(timeout=60)
    process.join()
    return result


def removed_names():
    """Uses names that Python and NumPy had at the time of TensorFlow 1."""
    return [
        np.float(3) + np.asscalar(np.ones([1])) + np.math.sqrt(4),
        np.zeros([2], np.int).dtype.kind,
        isinstance([], Iterable),
        threading.Thread().isAlive(),
        time.clock() > 0,
    ]


def main(argv):
    tf.logging.set_verbosity(tf.logging.ERROR)
    report = {
        "name": __name__,
        "file": os.path.basename(__file__),
        "arguments": argv[1:],
        "path": os.path.basename(sys.path[0]),
        "gfile": tf.gfile.Exists(__file__),
        "slim": slim_drop_stale.train(FLAGS.steps),
        "batch norm": slim_drop_stale.batch_norm(),
        "accumulators": accumulators.train(FLAGS.steps),
        "towers": towers.train(FLAGS.steps),
    }
    report["removed"] = removed_names()
    report["cells"] = hasattr(tf.contrib.rnn, "BasicLSTMCell")
    if "spawn" in argv:
        report["spawned"] = in_new_process()
    print(json.dumps(report), flush=True)
    tf.layers.dense(tf.zeros([1, 2]), 3)
    sys.exit(3)


if __name__ == "__main__":
    tf.app.run()
