"""The command line of the example: ``python -m tf_condacc.examples.towers``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tf_condacc.examples.common import command_line

_PACKAGES = ("scikit-learn", "matplotlib", "tqdm")
_NUM_TEST_EXAMPLES = 360


def main(arguments: list[str] | None = None) -> int:
    """Runs the example and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
    """
    options = _parse(arguments)
    return command_line.finish(lambda: _run(options), "The example", _PACKAGES)


def _run(options: argparse.Namespace) -> None:
    # Imported here, so that --help needs none of them, and a missing package is reported in a line.
    import logging

    import tensorflow as tf
    from tqdm import tqdm

    from tf_condacc.examples.digits import data
    from tf_condacc.examples.towers import comparison, mirrored, picture, report, runs

    tf.get_logger().setLevel("ERROR")
    logging.getLogger("tf_condacc").setLevel("ERROR")  # Hides the deprecation warning.
    settings = runs.Settings(
        towers=tuple(options.towers),
        steps=options.steps,
        compared_steps=options.compared_steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    mirrored.use_virtual_devices(max(settings.towers))
    train, test = data.load(settings.seed)
    total = settings.steps * len(settings.towers)
    with tqdm(total=total, unit="step", dynamic_ncols=True, disable=None) as bar:
        every = [
            runs.train_and_test(number, settings, train, test, on_step=bar.update)
            for number in settings.towers
        ]
    print(report.trainings(every, settings))
    differences, moved = comparison.compare(settings, train)
    print(report.differences(differences, moved, settings))
    picture.draw(every, differences, options.output)
    print(f"Picture: {options.output}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command_line.new_parser(
        "python -m tf_condacc.examples.towers",
        "Trains a digit classifier as programs for tf.contrib.estimator did: with towers, on "
        "virtual CPUs. Then compares what towers learn with what one device learns.",
    )
    add, positive = parser.add_argument, command_line.positive
    add("--towers", type=positive, nargs="+", default=[1, 2, 4], help="numbers of towers")
    add("--steps", type=positive, default=300, help="training steps with each number of towers")
    add("--compared-steps", type=positive, default=40, help="steps of the comparison")
    add("--batch-size", type=positive, default=64, help="digits in a batch, of all towers")
    add("--learning-rate", type=float, default=0.05, help="learning rate of the Momentum optimizer")
    add("--seed", type=int, default=1, help="seed of the data split, the batches and the weights")
    add("--output", type=Path, default=Path("towers.png"), help="where to write the picture")
    options = parser.parse_args(arguments)
    for number in options.towers:
        for what, size in (("--batch-size", options.batch_size), ("the test", _NUM_TEST_EXAMPLES)):
            if size % number != 0:
                parser.error(f"{what} has {size} digits: {number} towers cannot share them equally")
    if options.steps < 2:
        parser.error(f"--steps must be at least 2, got {options.steps}")
    if not options.output.parent.is_dir():
        parser.error(f"{options.output}: there is no folder {options.output.parent}")
    return options


if __name__ == "__main__":
    sys.exit(main())
