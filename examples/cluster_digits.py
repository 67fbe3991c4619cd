"""Trains a digit classifier on a cluster of parameter servers and workers.

    condacc launch --ps 1 --workers 4 --restarts 1 -- python examples/cluster_digits.py

Without a launcher, the program trains in one process. Synchronous workers average their gradients
in each step. Each has its part of the batch, so the training equals that of one process with the
whole batch. Asynchronous workers apply their gradients themselves, each of a whole batch, unless
they are too stale. The chief saves checkpoints, measures the loss and draws a picture at the end.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pictures  # Imported before TensorFlow, to hide its log.
import tensorflow as tf
from pictures import BLUE, DASHES, GREEN, GREY, ORANGE

import tf_condacc

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


class Fault(v1.train.SessionRunHook):
    """Kills this process at a step, once, and records when. The launcher starts it again."""

    def __init__(self, at, folder):
        self._at, self._killed, self._back = at, folder / "killed", folder / "back"

    def after_create_session(self, session, coord):
        if self._killed.exists() and not self._back.exists():
            self._back.touch()

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        if run_values.results >= self._at > 0 and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def train(task, args):
    """Trains in this task. Returns the chief's measurements: an array with a row for each kind."""
    v1.set_random_seed(args.seed)
    examples, test_examples = load(args.seed)
    is_synchronous = args.mode == "sync"
    step = v1.train.get_or_create_global_step()
    inputs = v1.placeholder(tf.float32, [None, 8, 8, 1]), v1.placeholder(tf.int64, [None])
    loss, accuracy = network(*inputs)
    v1.summary.scalar("loss", loss)  # The chief writes it for TensorBoard.
    optimizer = v1.train.MomentumOptimizer(0.03, 0.9)
    hooks = [v1.train.StopAtStepHook(last_step=args.steps)]
    if is_synchronous:
        optimizer = tf_condacc.SyncReplicasOptimizer(optimizer, task.num_worker_replicas)
        optimizer.configure(takeover_secs=args.takeover_secs or None)
        hooks.append(optimizer.make_session_run_hook(task.is_chief))
    else:
        optimizer = tf_condacc.DropStaleGradientOptimizer(optimizer, staleness=4)
    train_op = optimizer.minimize(loss, step)
    fetches = step, loss, accuracy, optimizer.num_dropped()
    if task.worker_index == task.num_worker_replicas - 1 and not task.is_chief:
        hooks.append(Fault(args.fault_at, args.folder))
    measurements = []

    def measure(step_context):
        """Measures the loss on all training examples and the accuracy on test examples."""
        run = step_context.session.run  # Runs without the hooks, which count steps.
        if measurements and run(step) < min(measurements[-1][1] + 10, args.steps):
            return
        _, train_loss, _, _ = run(fetches, dict(zip(inputs, examples, strict=True)))
        at, _, test_accuracy, dropped = run(fetches, dict(zip(inputs, test_examples, strict=True)))
        measurements.append((time.time(), at, train_loss, test_accuracy, dropped))
        print(f"step {at} of {args.steps}  loss {train_loss:.5f}  "
              f"accuracy {test_accuracy:.3f}  dropped {dropped}", flush=True)  # fmt: skip

    # Synchronous workers draw the same batches, and each takes its part of them.
    rng = np.random.default_rng(args.seed if is_synchronous else [args.seed, task.worker_index])
    part = (
        slice(task.worker_index, None, task.num_worker_replicas) if is_synchronous else slice(None)
    )
    folder = str(args.folder)
    save = {"save_checkpoint_steps": 100, "save_summaries_steps": 20, "log_step_count_steps": None}
    with task.session(checkpoint_dir=folder, hooks=hooks, **save) as session:
        while not session.should_stop():
            if task.is_chief:
                session.run_step_fn(measure)
            chosen = rng.choice(len(examples[0]), args.batch_size)[part]
            feed = dict(zip(inputs, (each[chosen] for each in examples), strict=True))
            session.run(train_op, feed)
        if task.is_chief:
            session.run_step_fn(measure)
    return np.array(measurements).T


def draw(measurements, faults, path):
    """Draws what was learned, how fast, and when a worker was lost and came back."""
    figure, axes = pictures.figure("Handwritten digits, learned on a cluster", 2, 2, 6.8)
    (loss, speed), (accuracy, dropped) = axes
    times, steps, losses, accuracies, drops = measurements
    times = times - times[0]
    pictures.style(loss, "Training loss", "on all training images", "", times[-1])
    pictures.loss(loss, times, losses, BLUE, smooth=False)
    pictures.style(
        accuracy, "Test accuracy", "on images that no worker has seen", "seconds", times[-1]
    )
    pictures.accuracy(accuracy, times, accuracies, GREEN)
    pictures.style(speed, "Speed", "steps per second, of all workers together", "", times[-1])
    speed.stairs(np.diff(steps) / np.diff(times), times, color=BLUE, lw=2, baseline=None)
    speed.set_ylim(bottom=0)
    pictures.style(
        dropped, "Gradients dropped", "up to each moment, of all workers", "seconds", times[-1]
    )
    dropped.step(times, drops, color=ORANGE, lw=2.2, where="post")
    dropped.set_ylim(0, max(1, 1.1 * drops[-1]))
    dropped.yaxis.get_major_locator().set_params(integer=True)
    for ax in axes.flat:
        for (name, at), dashes in zip(faults.items(), (DASHES, (0, (1, 1))), strict=False):
            seconds = at - measurements[0][0]
            ax.axvline(seconds, color=GREY, lw=1.4, ls=dashes, label=f"worker {name}")
        if faults:
            pictures.legend(ax)
    figure.savefig(path, format="png")


def main():
    """Trains in this task. The chief prints a table and draws a picture at the end."""
    parser = argparse.ArgumentParser(description="Trains a digit classifier on a cluster.")
    add = parser.add_argument
    add("--mode", choices=["sync", "async"], default="sync", help="how the workers train (sync)")
    add("--steps", type=pictures.positive, default=300, help="training steps (%(default)s)")
    add("--batch-size", type=pictures.positive, default=128, help="of a step (%(default)s)")
    add("--takeover-secs", type=float, default=0, help="time after which others compute for a "
        "worker that is lost; 0 for never (%(default)s)")  # fmt: skip
    add("--fault-at", type=int, default=0, help="step at which the last worker kills itself (none)")
    add("--seed", type=int, default=1, help="seed of weights and batches (%(default)s)")
    add("--folder", type=Path, default=Path("cluster_digits"), help="for checkpoints (%(default)s)")
    add("--output", type=pictures.file, default="cluster_digits.png", help="picture (%(default)s)")
    args = parser.parse_args()
    with tf_condacc.cluster.start() as task:  # Does not return in a parameter server.
        latest = tf.train.latest_checkpoint(args.folder)
        if task.is_chief and latest and int(latest.rpartition("-")[2]) >= args.steps:
            sys.exit(f"{args.folder} holds a finished training: remove it, or pass --folder.")
        with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
            measurements = train(task, args)
    if task.is_chief:
        files = {name: args.folder / name for name in ("killed", "back")}
        faults = {name: file.stat().st_mtime for name, file in files.items() if file.exists()}
        draw(measurements, faults, args.output)
        print(f"accuracy {measurements[3][-1]:.4f}, picture: {args.output}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
