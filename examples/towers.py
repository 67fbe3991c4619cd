"""Trains a digit classifier with towers on several devices, as programs of the year 2018 did.

Run it with ``python -m tf_condacc.examples.towers``; ``--help`` lists the options.

An Estimator runs a `model_fn`, which uses a TowerOptimizer and is replicated over devices. Here the
devices are virtual CPUs. The program trains, evaluates and predicts with 1, 2 and 4 towers.

It then trains without batch normalization, whose statistics differ from tower to tower. After each
step, ``common/tower_runs.py`` compares the weights with those of one tower on the whole batch. It
does the same with a ``tf.distribute.MirroredStrategy``.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc import estimator
from tf_condacc.examples.common import command_line, data, network, tower_runs
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.data import Examples
from tf_condacc.examples.common.records import Run

_MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Settings(command_line.Settings):
    """The options of the program."""

    towers: tuple[int, ...] = option((1, 2, 4), "numbers of towers, with a training for each")
    steps: int = option(300, "training steps with each number of towers", minimum=2)
    compared_steps: int = option(40, "steps of the comparison")
    batch_size: int = option(64, "digits in a batch, of all towers together")
    learning_rate: float = option(0.05, "learning rate of the Momentum optimizer")
    output: Path = option(Path("towers.png"), "where to write the picture")

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, size in (("--batch-size", self.batch_size), ("the test", data.NUM_TEST_EXAMPLES)):
            for number in self.towers:
                if size % number != 0:
                    raise ValueError(
                        f"{what} has {size} digits: {number} towers cannot share them equally"
                    )


def model_fn(
    features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> estimator.EstimatorSpec:
    """Builds the model, and returns its spec.

    Args:
        features: A dictionary with "image": `[n, 8, 8, 1] float32`.
        labels: `[n] int64`.
        mode: One of `ModeKeys`.
        params: The settings, and "batch_norm", which is whether to normalize.
    """
    training = mode == estimator.ModeKeys.TRAIN
    normalize = network.batch_norm(training) if params["batch_norm"] else None
    # The first tower makes the variables, and the others share them.
    weights = network.variables(params["seed"])
    scores = network.small_scores(features["image"], weights, normalize)
    predictions = {"class": tf.argmax(scores, axis=1), "probabilities": tf.nn.softmax(scores)}
    if mode == estimator.ModeKeys.PREDICT:
        outputs = {"digits": estimator.export.PredictOutput(predictions)}
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = network.mean_loss(scores, labels)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["class"])}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    momentum = v1.train.MomentumOptimizer(params["learning_rate"], _MOMENTUM)
    optimizer = tf_condacc.TowerOptimizer(momentum)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def new_estimator(
    num_towers: int, settings: Settings, folder: str, batch_norm: bool
) -> estimator.Estimator:
    """Returns an Estimator of the model, with one virtual CPU for each tower."""
    return estimator.Estimator(
        tf_condacc.replicate_model_fn(model_fn, devices=[f"/CPU:{k}" for k in range(num_towers)]),
        config=estimator.RunConfig(
            model_dir=folder,
            tf_random_seed=settings.seed,
            session_config=v1.ConfigProto(device_count={"CPU": num_towers}),
        ),
        params=vars(settings) | {"batch_norm": batch_norm},
    )


def train_and_test(
    number: int, settings: Settings, train: Examples, test: Examples, on_step: Callable[[], None]
) -> Run:
    """Trains with batch normalization, then evaluates and predicts with as many towers."""
    watch = tower_runs.Watch(number, on_step)
    batches = data.batches(train, settings.batch_size, settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        classifier = new_estimator(number, settings, folder, batch_norm=True)
        classifier.train(lambda: data.dataset(batches), hooks=[watch], steps=settings.steps)
        evaluation = classifier.evaluate(lambda: data.dataset([test]))
        predictions = list(classifier.predict(lambda: data.dataset([test])))
    watch.run.accuracy = float(evaluation["accuracy"])
    classes = [prediction["class"] for prediction in predictions]
    watch.run.predicted = float(np.mean(classes == test.labels))
    return watch.run


def run(settings: Settings) -> None:
    """Trains in all ways, and shows the results."""
    # Imported here, so that a missing package can be reported.
    from tf_condacc.examples.common import pictures, report

    tf.get_logger().setLevel("ERROR")
    logging.getLogger("tf_condacc").setLevel("ERROR")  # Hides the deprecation warning.
    tower_runs.use_virtual_devices(max(settings.towers))
    train, test = data.load(settings.seed)
    with report.ProgressBar(settings.steps * len(settings.towers)) as bar:
        runs = [train_and_test(k, settings, train, test, bar.advance) for k in settings.towers]
    print(report.towers(runs, settings.steps, settings.batch_size))
    batches = data.batches(train, settings.batch_size, settings.seed)
    comparison = tower_runs.compare(
        settings.towers,
        list(islice(batches, settings.compared_steps)),
        lambda number, folder: new_estimator(number, settings, folder, batch_norm=False),
        lambda: v1.train.MomentumOptimizer(settings.learning_rate, _MOMENTUM),
    )
    print(report.tower_differences(comparison, settings.compared_steps))
    report.save({run.title: run.losses for run in runs}, settings)
    pictures.towers(runs, comparison.differences, settings.output)
    print(f"Picture: {settings.output}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit status."""
    command = "python -m tf_condacc.examples.towers"
    return command_line.run(run, Settings, command, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
