"""The command line of the example: ``python -m tf_condacc.examples.async_digits``."""

from __future__ import annotations

import argparse
import sys

from tf_condacc.examples.common import command_line

_PACKAGES = ("scikit-learn", "matplotlib", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Runs the example and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
    """
    options = _parse(arguments)
    return command_line.finish(lambda: _run(options), "The example", _PACKAGES)


def _run(options: argparse.Namespace) -> None:
    # Imported here, so that --help needs none of them, and a missing package is reported in a line.
    from tf_condacc.examples.async_digits import picture, training
    from tf_condacc.examples.async_digits import report as own_report
    from tf_condacc.examples.common import report

    settings = training.Settings(
        num_workers=options.workers,
        staleness=options.staleness,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        momentum=options.momentum,
        seed=options.seed,
    )

    def train(name: str, settings: training.Settings) -> training.History:
        with report.ProgressBar(settings.steps, f"{name:>12}") as bar:
            return training.train(
                settings, lambda now: bar.show(now, report.accuracy(now.accuracies))
            )

    histories = list(map(train, training.NAMES, settings.of_both()))
    print(own_report.table(histories, settings))
    if options.losses:
        own_report.save(histories, settings, options.losses)
    picture.draw(histories, settings, options.output)
    print(f"  picture: {options.output}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command_line.new_parser(
        "python -m tf_condacc.examples.async_digits",
        "Trains a digit classifier with several workers of different speed in one process, which "
        "apply their gradients without waiting for each other: once with a "
        "DropStaleGradientOptimizer that drops those that are too many steps behind, and once with "
        "one that drops none.",
    )
    command_line.add_training_options(
        parser,
        defaults={
            "steps": 300,
            "batch_size": 32,
            "learning_rate": 0.03,
            "output": "async_digits.png",
        },
        help_texts={
            "steps": "gradients that the workers compute in each training, applied or not",
            "batch_size": "examples in a batch",
            "learning_rate": "learning rate of the workers' momentum optimizer",
            "seed": "seed of the data split, the batches, the weights and the workers' schedule",
            "losses": "also write what became of every gradient there, as JSON",
        },
    )
    add = parser.add_argument
    add(
        "--staleness",
        type=command_line.not_negative,
        default=3,
        help="how many steps behind gradients may be where they are dropped",
    )
    add("--momentum", type=float, default=0.9, help="momentum of the workers' momentum optimizer")
    return command_line.parse(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
