"""Trains a model of Keras with TensorFlow 2's parameter servers, synchronously and to the bit.

    condacc launch --coordinator --ps 2 --workers 3 python examples/parameter_servers.py

Each step consists of a fixed number of parts, which the workers compute, and which the parameter
servers average in a fixed order. So the weights do not depend on who computes a part, how many
workers there are, or which tasks are lost. Without a cluster, the program computes the parts one
after another, and ends with the same weights.
"""

import argparse
import hashlib
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's log.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf

import tf_condacc.cluster  # Every task needs its operations.

tf.get_logger().setLevel("CRITICAL")  # The launcher reports what is lost.

PARTS, BATCH, EXAMPLES = 6, 48, 1000
SEED = tf.constant(3, tf.int64)


def load():
    """Returns word numbers `[1000, 8]` and labels `[1000, 1]`."""
    words = np.random.default_rng(0).integers(0, 500, [EXAMPLES, 8])
    return words, (np.sin(words).sum(axis=1, keepdims=True) > 0).astype(np.float32)


def positions(step, part):
    """Returns the examples of a part, which follow from the step: each once in an epoch."""
    steps = -(-EXAMPLES // BATCH)
    begin = step % steps * BATCH
    size = tf.minimum(tf.constant(BATCH, tf.int64), EXAMPLES - begin)
    at = tf.range(begin + size * part // PARTS, begin + size * (part + 1) // PARTS)
    seed = tf.stack([SEED, step // steps])
    return tf.random.experimental.index_shuffle(at, seed, tf.constant(EXAMPLES - 1, tf.int64))


def pieces(variable):
    """Returns the `tf.Variable`s of a variable of Keras: its shards, if it is in several pieces."""
    value = variable if isinstance(variable, tf.Variable) else variable.value
    return getattr(value, "variables", [value])


def make_sums(variables, step):
    """Returns an accumulator for each variable, on its device."""
    sums = []
    for variable in variables:
        kind, mean = tf_condacc.ConditionalAccumulator, "MEAN"
        if "embedding" in variable.name:  # Its gradients are tf.IndexedSlices.
            kind, mean = tf_condacc.SparseConditionalAccumulator, "GLOBAL_MEAN"
        with tf.device(variable.device):
            sums.append(kind.deterministic(PARTS, tf.float32, variable.shape, reduction_type=mean))
            sums[-1].set_global_step(step)
    return sums


def train(strategy, coordinator, options):
    """Trains from the latest checkpoint on."""
    with strategy.scope():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Embedding(500, 16), keras.layers.Flatten()]
        layers += [keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input([8], dtype="int64"), *layers])
        optimizer = getattr(keras.optimizers, options.optimizer)(0.01)
        variables = [piece for each in model.trainable_variables for piece in pieces(each)]
        optimizer.build(variables)
        step = tf.Variable(0, dtype=tf.int64)
    state = [piece for each in optimizer.variables for piece in pieces(each)]
    checkpoint = tf.train.Checkpoint(step=step, variables=variables, optimizer=state)
    options.folder.mkdir(parents=True, exist_ok=True)
    if saved := [int(path.stem) for path in options.folder.glob("*.index")]:
        checkpoint.read(str(options.folder / str(max(saved)))).assert_consumed()
    sums = make_sums(variables, step)
    words, labels = load()

    @tf.function
    def push(at_step, part):  # On a worker. What a retry applies again is a duplicate.
        at = positions(at_step, part)
        with tf.GradientTape() as tape:
            logits = model(tf.gather(words, at), training=True)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.gather(labels, at), logits)
            loss = tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.size(at), tf.float32))
        for each, gradient in zip(sums, tape.gradient(loss, variables), strict=True):
            apply = each.apply_contribution
            if isinstance(gradient, tf.IndexedSlices):
                apply = each.apply_indexed_slices_contribution
            apply(gradient, part, at_step, weight=tf.size(at))
        return loss

    @tf.function
    def update(at_step):  # On the parameter servers.
        means = []
        for each, variable in zip(sums, variables, strict=True):
            is_sparse = isinstance(each, tf_condacc.SparseConditionalAccumulator)
            take = each.try_take_indexed_slices_grad if is_sparse else each.try_take_grad
            with tf.device(variable.device):
                taken, mean = take(PARTS, global_step=at_step)
                tf.debugging.Assert(taken, ["A part is missing."])
            means.append(mean)
        with tf.distribute.ReplicaContext(strategy, 0), tf.device(variables[0].device):
            optimizer.apply_gradients(zip(means, variables, strict=True))
            step.assign_add(1)

    save = tf.function(checkpoint.write)  # Traced once: it does not wait for a frozen worker.
    for number in range(int(step), options.steps):
        at_step = tf.constant(number, tf.int64)
        parts = [(at_step, tf.constant(part, tf.int64)) for part in range(PARTS)]
        if coordinator:
            losses = [coordinator.schedule(push, part) for part in parts]
            coordinator.join()
        else:
            losses = [push(*part) for part in parts]
        with strategy.scope():
            update(at_step)
        if number % 5 == 4:
            save(tf.constant(str(options.folder / str(number + 1))))
            for old in options.folder.glob(f"{number - 9}.*"):
                old.unlink()
            loss = np.mean([each.fetch() if coordinator else each for each in losses])
            print(f"step {number + 1}  loss {loss:.4f}")
    print("weights", digest(variables))
    slots = [each for each in state if each.shape.rank]  # Not the number of updates and the rate.
    num_kinds = len(slots) // len(variables)
    print("slots", digest([slot for kind in range(num_kinds) for slot in slots[kind::num_kinds]]))


def digest(variables):
    """Returns the SHA-256 of variables, in which the pieces of a variable count as one."""
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in variables)).hexdigest()


def main():
    """Serves, coordinates or trains alone, as TF_CONFIG says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--optimizer", default="Adam", help="an optimizer of keras.optimizers")
    parser.add_argument("--folder", type=Path, default="parameter_servers", help="of checkpoints")
    options = parser.parse_args()
    if "TF_CONFIG" not in os.environ:
        train(tf.distribute.get_strategy(), None, options)
        return
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task.task_type in ("ps", "worker"):
        spec = task.cluster_spec()
        tf.distribute.Server(spec, task.task_type, task.task_id, protocol="grpc").join()
    shards = tf.distribute.experimental.partitioners.MinSizePartitioner(8 << 10, max_shards=2)
    strategy = tf.distribute.ParameterServerStrategy(task, shards)
    with tf_condacc.cluster.coordinator(strategy) as coordinator:
        train(strategy, coordinator, options)


if __name__ == "__main__":
    main()
