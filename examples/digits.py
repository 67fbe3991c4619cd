"""Trains a digit classifier with several workers, through dense conditional accumulators.

There is one accumulator for each variable. Workers apply their gradients to the accumulators, and a
chief takes the means of at least all but one and applies them to the variables. The workers differ
in speed, as machines do, because their batches differ in size. The gradients of a slow worker may
be ready only after the chief has made its step. They are stale then, and are dropped.

The workers are threads of one process here. On a cluster they are processes, and the shared names
let all of them use the same accumulators on a parameter server.
"""

import argparse
import contextlib
import sys
import threading
from pathlib import Path

import numpy as np
import pictures  # Imported before TensorFlow, to hide its log.
import tensorflow as tf
from pictures import BLUE, GREEN, ORANGE
from tqdm import tqdm

import tf_condacc

v1 = tf.compat.v1
v1.disable_eager_execution()


def load(seed):
    """Returns training and test examples, pairs of images `[n, 8, 8, 1]` and labels `[n]`."""
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        images = (file["images"] / 16).astype(np.float32).reshape(-1, 8, 8, 1)
        labels = file["labels"].astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    return [(images[part], labels[part]) for part in np.split(order, [1437])]


def weights(name, shape):
    """Returns a variable. All networks of a graph share it."""
    with v1.variable_scope("", reuse=v1.AUTO_REUSE, use_resource=True):
        return v1.get_variable(name, shape, initializer=v1.glorot_uniform_initializer())


def network(images, labels):
    """Returns the mean loss of a small convolutional network, and its accuracy."""
    hidden = tf.nn.relu(tf.nn.conv2d(images, weights("convolution", [3, 3, 1, 32]), 1, "SAME"))
    hidden = tf.reshape(tf.nn.max_pool2d(hidden, 2, 2, "VALID"), [-1, 512])
    hidden = tf.nn.relu(hidden @ weights("hidden", [512, 128]))
    scores = hidden @ weights("scores", [128, 10])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
    is_right = tf.equal(tf.argmax(scores, axis=1), labels)
    return tf.reduce_mean(losses), tf.reduce_mean(tf.cast(is_right, tf.float32))


def worker_turn(inputs, accumulators, losses, tokens):
    """Returns the operation of a worker's turn: it waits for a token and applies its gradients."""
    # A late worker finds several tokens, and takes all of them for one turn.
    token = tokens.dequeue_many(tf.maximum(tokens.size(), 1))
    # The local step is read before the variables. The chief updates the variables before the step,
    # so the gradients are at least as new as the local step says.
    with tf.control_dependencies([token]):
        local_step = v1.train.get_global_step().read_value()
    with tf.control_dependencies([local_step]):
        loss, _ = network(*inputs)
    gradients = tf.gradients(loss, v1.trainable_variables())
    pairs = zip(accumulators, gradients, strict=True)
    pushes = [accumulator.apply_grad(gradient, local_step) for accumulator, gradient in pairs]
    return tf.group(*pushes, losses.apply_grad(tf.stack([loss, 1.0]), local_step))


def chief_turn(required, accumulators, losses, tokens):
    """Returns what the chief runs in a step: it waits for gradients and hands out tokens."""
    means = [accumulator.take_grad(required) for accumulator in accumulators]
    sum_and_number = losses.take_grad(required)
    train_op = v1.train.AdamOptimizer(1e-3).apply_gradients(
        zip(means, v1.trainable_variables(), strict=True), v1.train.get_global_step()
    )
    # All takes are over before a worker begins its next turn.
    with tf.control_dependencies([train_op, sum_and_number]):
        # TensorFlow's class does not count the gradients that it drops.
        dropped = losses.num_dropped() if hasattr(losses, "num_dropped") else tf.constant(0)
        return sum_and_number, dropped, [queue.enqueue(0) for queue in tokens]


def train(args):
    """Trains, and returns the record of the steps and the accuracies after some of them."""
    library = v1 if args.backend == "tf" else tf_condacc
    v1.set_random_seed(args.seed)
    examples, test_examples = load(args.seed)
    inputs = v1.placeholder(tf.float32, [None, 8, 8, 1]), v1.placeholder(tf.int64, [None])
    _, accuracy = network(*inputs)
    v1.train.create_global_step()
    accumulators = [
        library.ConditionalAccumulator(v.dtype, v.shape, shared_name=f"{v.op.name}/gradient")
        for v in v1.trainable_variables()
    ]
    # Each worker applies the vector [loss, 1] to this accumulator. A take gives the sum of the
    # losses, and the number of gradients in the step.
    losses = library.ConditionalAccumulator(tf.float32, [2], "losses", reduction_type="SUM")
    tokens = [v1.FIFOQueue(100, tf.int64, [], name=f"tokens_{k}") for k in range(args.workers)]
    turns = [worker_turn(inputs, accumulators, losses, queue) for queue in tokens]
    chief = chief_turn(max(1, args.workers - 1), accumulators, losses, tokens)
    start = [queue.enqueue(0) for queue in tokens]
    stop = [queue.close() for queue in tokens]

    def work(k):
        rng = np.random.default_rng([args.seed, k])
        with contextlib.suppress(tf.errors.OutOfRangeError):  # The queue is closed at the end.
            while True:
                batch = rng.choice(len(examples[0]), 32 * (k + 1))
                session.run(turns[k], dict(zip(inputs, (e[batch] for e in examples), strict=True)))

    # The network is too small to benefit from a GPU. A step that waits for a minute fails.
    config = v1.ConfigProto(device_count={"GPU": 0}, operation_timeout_in_ms=60_000)
    steps, accuracies = [], []
    with v1.Session(config=config) as session:
        session.run(v1.global_variables_initializer())
        session.run(start)
        threads = [threading.Thread(target=work, args=[k]) for k in range(args.workers)]
        for thread in threads:
            thread.start()
        try:
            with tqdm(range(1, args.steps + 1), unit="step", disable=None) as bar:
                for step in bar:
                    (loss, applied), dropped, _ = session.run(chief)
                    steps.append((loss / applied, applied, dropped))
                    if step % 10 == 0 or step == args.steps:
                        test = session.run(accuracy, dict(zip(inputs, test_examples, strict=True)))
                        accuracies.append((step, test))
                    bar.set_postfix(loss=f"{loss / applied:.4f}", dropped=dropped, refresh=False)
        finally:  # Ctrl-C ends the workers, too.
            session.run(stop)
            for thread in threads:
                thread.join()
    return np.array(steps).T, np.array(accuracies).T


def draw(record, accuracies, path):
    """Draws the loss, the accuracy, and how many gradients were applied and dropped."""
    figure, ((left, right), (below, per_step)) = pictures.figure("Handwritten digits", 2, 2, 6.8)
    losses, applied, dropped = record
    steps = np.arange(1, len(losses) + 1)
    pictures.style(left, "Training loss", "moving mean of 25 steps", "", len(steps))
    pictures.loss(left, steps, losses, BLUE)
    pictures.style(below, "Test accuracy", "on images that no worker has seen", "step", len(steps))
    pictures.accuracy(below, *accuracies, GREEN)
    look = {"colors": [BLUE, ORANGE], "labels": ["applied", "dropped as stale"]}
    pictures.style(right, "Gradients in all", "up to each step, of all workers", "", len(steps))
    right.stackplot(steps, np.cumsum(applied), dropped, **look)
    pictures.legend(right)
    pictures.style(per_step, "Gradients per step", "moving mean of 25 steps", "step", len(steps))
    means = map(pictures.moving_mean, (applied, np.diff(dropped, prepend=0)))
    per_step.stackplot(steps, *means, **look)
    figure.savefig(path, format="png")


def main():
    """Trains, prints a table and draws a picture."""
    parser = argparse.ArgumentParser(description="Trains a digit classifier with several workers.")
    add = parser.add_argument
    add("--steps", type=pictures.positive, default=600, help="training steps (%(default)s)")
    add("--workers", type=pictures.positive, default=4, help="number of workers (%(default)s)")
    add("--backend", choices=["condacc", "tf"], default="condacc", help="whose accumulators")
    add("--seed", type=int, default=1, help="seed of weights and batches (%(default)s)")
    add("--output", type=pictures.file, default="digits.png", help="picture (%(default)s)")
    args = parser.parse_args()
    (losses, applied, dropped), accuracies = record = train(args)
    unknown = "TensorFlow's class does not count them"
    print(f"  test accuracy      {accuracies[1][-1]:.4f}")
    print(f"  loss at the end    {losses[-1]:.4f}")
    print(f"  gradients applied  {applied.sum():,.0f}")
    print(f"  gradients dropped  {unknown if args.backend == 'tf' else int(dropped[-1])}")
    draw(*record, args.output)
    print(f"  picture            {args.output}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
