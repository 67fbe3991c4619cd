"""Trains a digit classifier with towers on several devices, as programs of the year 2018 did.

An Estimator runs a `model_fn`, which `replicate_model_fn` replicates over devices. Each device gets
an equal part of the batch. A `model_fn` for one device needs two changes: its optimizer is wrapped
in a `TowerOptimizer`, and the function is replicated. The devices are virtual CPUs here.

The program trains, evaluates and predicts with 1, 2 and 4 towers.
"""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pictures  # Imported before TensorFlow, to hide its log.
import tensorflow as tf
from pictures import BLUE, GREEN, GREY, ORANGE
from tqdm import tqdm

import tf_condacc
from tf_condacc import estimator

v1 = tf.compat.v1
COLORS = BLUE, ORANGE, GREEN, GREY


def load(seed):
    """Returns training and test examples, pairs of images `[n, 8, 8, 1]` and labels `[n]`."""
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        images = (file["images"] / 16).astype(np.float32).reshape(-1, 8, 8, 1)
        labels = file["labels"].astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    return [(images[part], labels[part]) for part in np.split(order, [1437])]


def convolution(name, inputs, channels, training):
    """Returns a convolution with batch normalization, at half the resolution."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [3, 3, inputs.shape[-1], channels])
        ones, zeros = v1.ones_initializer(), v1.zeros_initializer()
        gamma = v1.get_variable("gamma", [channels], initializer=ones)
        beta = v1.get_variable("beta", [channels], initializer=zeros)
        mean = v1.get_variable("mean", [channels], initializer=zeros, trainable=False)
        variance = v1.get_variable("variance", [channels], initializer=ones, trainable=False)
    outputs = tf.nn.conv2d(inputs, kernel, 1, "SAME")
    if training:
        # The statistics are those of the tower's part of the batch.
        outputs, batch_mean, batch_variance = v1.nn.fused_batch_norm(outputs, gamma, beta)
        for moving, current in ((mean, batch_mean), (variance, batch_variance)):
            update = v1.assign_sub(moving, 0.1 * (moving - current))
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    else:
        outputs, *_ = v1.nn.fused_batch_norm(
            outputs, gamma, beta, mean, variance, is_training=False
        )
    return tf.nn.max_pool2d(tf.nn.relu(outputs), 2, 2, "VALID")


def model_fn(features, labels, mode, params):
    """Builds the model of a tower. The first tower makes the variables, and the others share them.

    Args:
        features: A dictionary with "image": `[n, 8, 8, 1] float32`.
        labels: `[n] int64`.
        mode: One of `estimator.ModeKeys`.
        params: A dictionary with "learning_rate".
    """
    training = mode == estimator.ModeKeys.TRAIN
    hidden = convolution("first", features["image"], 16, training)
    hidden = tf.reshape(convolution("second", hidden, 32, training), [-1, 128])
    scores = hidden @ v1.get_variable("scores", [128, 10])
    predictions = {"class": tf.argmax(scores, axis=1)}
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions=predictions)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
    loss = tf.reduce_mean(losses, name="mean_loss")
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["class"])}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    momentum = v1.train.MomentumOptimizer(params["learning_rate"], 0.9)
    optimizer = tf_condacc.TowerOptimizer(momentum)  # Averages the gradients of the towers.
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Progress(v1.train.SessionRunHook):
    """A hook that moves a progress bar on, and records the loss and the time of each step."""

    def __init__(self, loss, bar):
        self._loss, self._bar = loss, bar
        self.losses, self.times = [], []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)
        self.times.append(time.perf_counter())
        self._bar.set_postfix(loss=f"{run_values.results:.4f}", refresh=False)
        self._bar.update()


def train(num_towers, args, examples, test_examples, bar):
    """Trains, evaluates and predicts; returns the record and the accuracy."""

    def batches():
        dataset = tf.data.Dataset.from_tensor_slices(({"image": examples[0]}, examples[1]))
        dataset = dataset.shuffle(len(examples[1]), args.seed).repeat()
        return dataset.batch(args.batch_size, drop_remainder=True)

    def test():
        return tf.data.Dataset.from_tensors(({"image": test_examples[0]}, test_examples[1]))

    # The loss of several towers is their mean. With one tower, it is that of the `model_fn`.
    progress = Progress("mean_loss:0" if num_towers == 1 else "loss:0", bar)
    with tempfile.TemporaryDirectory() as folder:
        session_config = v1.ConfigProto(device_count={"CPU": num_towers})
        classifier = estimator.Estimator(
            tf_condacc.replicate_model_fn(
                model_fn, devices=[f"/CPU:{k}" for k in range(num_towers)]
            ),
            config=estimator.RunConfig(folder, args.seed, session_config=session_config),
            params={"learning_rate": 0.05},
        )
        classifier.train(batches, hooks=[progress], steps=args.steps)
        accuracy = classifier.evaluate(test)["accuracy"]
        predicted = [prediction["class"] for prediction in classifier.predict(test)]
    assert np.isclose(accuracy, np.mean(predicted == test_examples[1]))
    return progress, accuracy


def draw(records, path):
    """Draws the losses and the times of a step."""
    figure, ((losses, times),) = pictures.figure(
        "Handwritten digits, learned with towers", 1, 2, 4.6
    )
    for color, (name, (progress, _)) in zip(COLORS, records.items(), strict=False):
        steps = np.arange(1, len(progress.losses) + 1)
        pictures.loss(losses, steps, progress.losses, color, name)
        milliseconds = 1e3 * np.median(np.diff(progress.times))
        times.bar([name], [milliseconds], color=color, width=0.6)
        times.bar_label(times.containers[-1], fmt="%.1f", color=GREY)
    pictures.style(losses, "Training loss", "moving mean of 25 steps", "step", len(steps))
    pictures.legend(losses)
    pictures.style(times, "Time of a step", "median, in ms, on virtual CPUs", "", len(records))
    times.set_xlim(-0.6, len(records) - 0.4)
    times.grid(visible=False)
    times.set_yticks([])
    figure.savefig(path, format="png")


def main():
    """Trains with each number of towers, prints a table and draws a picture."""
    parser = argparse.ArgumentParser(description="Trains with towers on several devices.")
    add = parser.add_argument
    add("--steps", type=pictures.positive, default=300, help="steps with each (%(default)s)")
    add("--towers", type=pictures.positive, nargs="+", default=[1, 2, 4], help="how many (1 2 4)")
    add("--batch-size", type=pictures.positive, default=64, help="of all towers (%(default)s)")
    add("--seed", type=int, default=1, help="seed of weights and batches (%(default)s)")
    add("--output", type=pictures.file, default="towers.png", help="picture (%(default)s)")
    args = parser.parse_args()
    examples, test_examples = load(args.seed)
    for size in (args.batch_size, len(test_examples[1])):
        for number in args.towers:
            if size % number:
                parser.error(f"{number} towers cannot share a batch of {size} equally")
    logging.getLogger("tf_condacc").setLevel("ERROR")  # It warns that towers are deprecated.
    records = {}
    with tqdm(total=args.steps * len(args.towers), unit="step", disable=None) as bar:
        for number in args.towers:
            name = f"{number} tower{'s' if number > 1 else ''}"
            records[name] = train(number, args, examples, test_examples, bar)
    for name, (progress, accuracy) in records.items():
        print(f"  {name:<9}  loss {progress.losses[-1]:.4f}, test accuracy {accuracy:.4f}")
    draw(records, args.output)
    print(f"  picture    {args.output}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
