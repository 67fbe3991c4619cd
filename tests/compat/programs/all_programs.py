"""Runs the programs of this folder in one process, and shows what Python tells them."""

import inspect
import json
import multiprocessing
import os
import re
import sys
import threading
import time
from collections import Iterable  # noqa: UP035

import accumulators
import numpy as np
import slim_drop_stale
import tensorflow as tf
import towers

from condacc import advice
from tf_condacc._optimizers.sync_replicas.worker_name import listed_workers
from tf_condacc.compat._runner import errors

flags = tf.app.flags
flags.DEFINE_integer("steps", 2, "Number of steps.")
FLAGS = flags.FLAGS


def in_child(queue):
    queue.put([__name__, tf.__name__, tf.executing_eagerly(), accumulators.train(1)])


def in_new_process():
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=in_child, args=(queue,))
    process.start()
    process.join()
    assert process.exitcode == 0
    return queue.get()


def removed_names():
    """Uses names that Python and NumPy had at the time of TensorFlow 1."""
    return [
        np.float(3) + np.asscalar(np.ones([1])) + np.math.sqrt(4),
        np.zeros([2], np.int).dtype.kind,
        isinstance([], Iterable),
        threading.Thread().isAlive(),
        time.clock() > 0,
        np.lib.pad(np.cast[np.int16]([1.5]), 1, "constant").tolist(),
        np.reshape(np.fromstring(b"\1\2", np.uint8), newshape=[2, 1]).tolist(),
        np.in1d([[1, 2]], [2]).tolist() + [np.asfarray([1]).dtype.name],
        inspect.getargspec(places)._asdict(),
    ]


def seconds_between_looks():
    """Returns how often a worker looks for its chief."""
    with tf.Graph().as_default():
        kinds = (tf.train.SessionManager, tf.train.Supervisor)
        given = tf.train.SessionManager(recovery_wait_secs=7)
        return [each._recovery_wait_secs for each in (*[kind() for kind in kinds], given)]


def places():
    """Returns where a device setter puts variables and others without the job "ps"."""
    cluster = tf.train.ClusterSpec({"servers": ["a:1", "a:2"], "worker": ["b:1", "b:2"]})
    setter = tf.train.replica_device_setter(worker_device="/job:worker/task:1", cluster=cluster)
    with tf.Graph().as_default(), tf.device(setter):
        variables = [tf.Variable(0), tf.Variable(0)]
        return [each.device for each in (*variables, sum(variables))]


def workers():
    """Returns the workers that synchronous training waits for, with two kinds of device setters."""
    for job in ("ps", "servers"):
        cluster = tf.train.ClusterSpec({job: ["a:1"], "worker": ["b:1", "b:2"]})
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
            tf.constant(0)
            yield listed_workers()


def graphs():
    """Returns static shapes of transposed convolutions, and uses losses of regularizers."""
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.placeholder(tf.float32, [None, 2, 2, 3])
        filters, strides = tf.zeros([5, 5, 7, 3]), [1, 2, 2, 1]
        sizes = ([16, 4, 4, 7], tf.stack([tf.shape(images)[0], 4, 4, 7]))
        shapes = [tf.nn.conv2d_transpose(images, filters, size, strides).shape for size in sizes]
        tf.get_variable("v", initializer=[2.0, 4.0], regularizer=tf.nn.l2_loss)
        (loss,) = tf.losses.get_regularization_losses()
        average = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([average.apply([loss])]):
            value = tf.identity(average.average(loss))
        session.run(tf.global_variables_initializer())
        return [each.as_list() for each in shapes] + [float(session.run(value))]


def functions_of_contrib():
    """Calls functions whose arguments TensorFlow has changed, by the names of the arguments."""
    lookup, nn = tf.contrib.lookup, tf.contrib.nn
    with tf.Graph().as_default() as graph, tf.Session() as session:
        words = lookup.index_table_from_tensor(mapping=["x", "y"], num_oov_buckets=1)
        pairs = lookup.KeyValueTensorInitializer(["a"], [7])
        table = lookup.HashTable(pairs, -1, shared_name="shared", name="table")
        variable = tf.get_variable("variable", initializer=[1.0])
        losses = [
            nn.deprecated_flipped_softmax_cross_entropy_with_logits(
                logits=[[8.0, 9.0]], labels=[[0.5, 0.5]]
            ),
            nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits([[9.0, 9.0]], [1]),
            nn.deprecated_flipped_sigmoid_cross_entropy_with_logits([0.0], targets=[1.0]),
        ]
        session.run([variable.initializer, table.init, tf.tables_initializer()])
        found = [words.lookup(tf.constant(["y", "z"])), table.lookup(tf.constant(["a", "b"]))]
        found += [tf.contrib.framework.zero_initializer(ref=variable), *losses]
        shared = [
            op.get_attr("shared_name").decode()
            for op in graph.get_operations()
            if op.name == "table"
        ]
        return [each.round(4).tolist() for each in session.run(found)] + shared


def lacking_names():
    """Returns the names that advice and hints give, and that this TensorFlow does not have."""
    texts = [*advice._ADVICE.values(), *errors._NOW.values()]
    found = {name for text in texts for name in re.findall(r"\btf(?:\.[A-Za-z_]\w*)+", text)}
    return sorted(name for name in found if not is_provided(tf, name.split(".")[1:]))


def is_provided(module, path):
    return not path or (
        hasattr(module, path[0]) and is_provided(getattr(module, path[0]), path[1:])
    )


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
    report["places"] = places()
    report["workers"] = list(workers())
    report["looks"] = seconds_between_looks()
    report["removed"] = removed_names()
    report["graphs"] = graphs()
    report["contrib"] = functions_of_contrib()
    report["lacking"] = lacking_names()
    report["cells"] = hasattr(tf.contrib.rnn, "BasicLSTMCell")
    if "spawn" in argv:
        report["spawned"] = in_new_process()
    print(json.dumps(report), flush=True)
    tf.layers.dense(tf.zeros([1, 2]), 3)
    sys.exit(3)


if __name__ == "__main__":
    tf.app.run()
