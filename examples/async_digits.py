"""Trains a digit classifier with workers that do not wait for each other.

Each worker reads the global step and the variables, computes gradients and applies them itself, to
variables that other workers have updated in the meantime. The staleness of its gradients is the
number of these updates. `DropStaleGradientOptimizer` drops gradients that are too stale.

The program trains twice: first stale gradients are dropped, then all gradients are applied. Each
worker is a thread that takes twice as long for its gradients as the one before it.
"""

import argparse
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pictures  # Imported before TensorFlow, to hide its log.
import tensorflow as tf
from pictures import BLUE, DASHES, GREEN, GREY, ORANGE
from tqdm import tqdm

from tf_condacc import DropStaleGradientOptimizer

v1 = tf.compat.v1


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


def worker_turn(k, inputs, momentum, staleness):
    """Returns the staleness and the loss of a worker's turn, and what it has dropped so far."""
    global_step = v1.train.get_global_step()
    # The workers share the inner optimizer and its slots. Each wraps it in an optimizer of its own,
    # which counts what this worker drops.
    optimizer = DropStaleGradientOptimizer(momentum, staleness)
    # `compute_gradients` reads the local step of the optimizer. This one is for the picture.
    local_step = global_step.read_value()
    with tf.control_dependencies([local_step]):
        loss, _ = network(*inputs)
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    # The sleep stands for a slow machine. A real program applies the gradients at once.
    with tf.control_dependencies(gradients):
        is_ready = v1.py_func(lambda: time.sleep(0.02 * 2**k), [], [])
    with tf.control_dependencies([is_ready]):
        step = global_step.read_value()
        gradients = [tf.identity(gradient) for gradient in gradients]
    with tf.control_dependencies([step]):
        train_op = optimizer.apply_gradients(zip(gradients, variables, strict=True), global_step)
    with tf.control_dependencies([train_op]):
        return step - local_step, loss, optimizer.num_dropped()


def train(args, staleness, title):
    """Trains, and returns the turns and the accuracies: arrays with a row for each quantity."""
    v1.set_random_seed(args.seed)
    examples, test_examples = load(args.seed)
    inputs = v1.placeholder(tf.float32, [None, 8, 8, 1]), v1.placeholder(tf.int64, [None])
    _, accuracy = network(*inputs)
    v1.train.create_global_step()
    momentum = v1.train.MomentumOptimizer(0.06, 0.9)
    workers = [worker_turn(k, inputs, momentum, staleness) for k in range(args.workers)]
    numbers = iter(range(args.steps))  # All workers take their turns from this iterator.
    turns, accuracies = [], []

    def work(k):
        rng, dropped_before = np.random.default_rng([args.seed, k]), 0
        for _ in numbers:
            batch = rng.choice(len(examples[0]), 32)
            feed = dict(zip(inputs, (each[batch] for each in examples), strict=True))
            late, loss, dropped = session.run(workers[k], feed)
            turns.append((time.monotonic() - start, late, loss, dropped > dropped_before))
            dropped_before = dropped

    # Each sleeping worker occupies one of TensorFlow's threads.
    config = v1.ConfigProto(device_count={"GPU": 0}, inter_op_parallelism_threads=args.workers + 4)
    with v1.Session(config=config) as session:
        session.run(v1.global_variables_initializer())
        test = dict(zip(inputs, test_examples, strict=True))
        session.run(accuracy, test)
        start = time.monotonic()
        threads = [threading.Thread(target=work, args=[k]) for k in range(args.workers)]
        for thread in threads:
            thread.start()
        try:
            with tqdm(total=args.steps, desc=f"{title:>12}", unit="turn", disable=None) as bar:
                is_training = True
                while is_training:
                    threads[-1].join(0.1)
                    is_training = any(thread.is_alive() for thread in threads)
                    bar.update(len(turns) - bar.n)
                    accuracies.append((time.monotonic() - start, session.run(accuracy, test)))
        finally:
            for _ in numbers:  # After Ctrl-C, no turns are left for the workers.
                pass
            for thread in threads:
                thread.join()
    return np.array(turns).T, np.array(accuracies).T


def draw(records, limit, path):
    """Draws the staleness of each gradient, and what the two trainings have learned, over time."""
    title = "Handwritten digits, learned by workers that do not wait for each other"
    figure, (upper, (accuracy, loss)) = pictures.figure(title, 2, 2, 7.2)
    seconds = max(accuracies[0].max() for _, accuracies in records.values())
    highest = max(turns[1].max() for turns, _ in records.values())
    pairs = zip(upper, (BLUE, GREEN), records.items(), strict=True)
    for ax, color, (name, ((times, late, losses, dropped), accuracies)) in pairs:
        subtitle = "of each gradient when it was ready" + "; dashed: the limit" * (ax is upper[0])
        pictures.style(ax, f"Staleness, {name}", subtitle, "seconds", seconds)
        for kind, dots, which in (("applied", color, 0), ("dropped", ORANGE, 1)):
            chosen = dropped == which
            look = {"color": dots, "label": f"{chosen.sum()} {kind}", "clip_on": False}
            ax.scatter(times[chosen], late[chosen], s=15, alpha=0.7, linewidth=0, **look)
        ax.set_ylim(-0.5, highest + 1)
        end = f"{name}: {accuracies[1][-1]:.1%}"
        pictures.accuracy(accuracy, *accuracies, color, end)
        pictures.loss(loss, times, losses, color, name)
    upper[0].axhline(limit + 0.5, color=GREY, lw=1.4, ls=DASHES)
    pictures.style(
        accuracy, "Test accuracy", "on images that no worker has seen", "seconds", seconds
    )
    accuracy.set_ylim(0, 1)
    subtitle = "of all batches, also of dropped gradients; moving mean of 25"
    pictures.style(loss, "Training loss", subtitle, "seconds", seconds)
    for ax in (*upper, accuracy, loss):
        pictures.legend(ax)
    figure.savefig(path, format="png")


def main():
    """Trains with and without dropping, prints a table and draws a picture."""
    parser = argparse.ArgumentParser(description="Trains with workers that do not wait.")
    add = parser.add_argument
    add("--steps", type=pictures.positive, default=300, help="gradients in all (%(default)s)")
    add("--workers", type=pictures.positive, default=4, help="number of workers (%(default)s)")
    add("--staleness", type=int, default=3, help="limit of the first training (%(default)s)")
    add("--seed", type=int, default=1, help="seed of weights and batches (%(default)s)")
    add("--output", type=pictures.file, default="async_digits.png", help="picture (%(default)s)")
    args = parser.parse_args()
    records = {}
    for name, staleness in {"dropping": args.staleness, "not dropping": args.steps}.items():
        with tf.Graph().as_default():
            records[name] = turns, accuracies = train(args, staleness, name)
        late, dropped = turns[1], int(turns[3].sum())
        print(f"  {name + ':':<14}test accuracy {accuracies[1][-1]:.4f}, "
              f"{args.steps - dropped} gradients applied, {dropped} dropped, "
              f"staleness up to {late.max():.0f}, {accuracies[0][-1]:.1f} s")  # fmt: skip
    draw(records, args.staleness, args.output)
    print(f"  picture: {args.output}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
