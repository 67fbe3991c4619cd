"""The command line of the example: ``python -m tf_condacc.examples.digits``."""

from __future__ import annotations

import argparse
import sys

from tf_condacc.examples.common import command_line

_PACKAGES = ("scikit-learn", "matplotlib", "tqdm")


def main(
    arguments: list[str] | None = None,
    command: str = "python -m tf_condacc.examples.digits",
    title: str = "The example",
) -> int:
    """Runs the example and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
        command: How the program was started, for the usage message.
        title: What the program is called in error messages.
    """
    options = _parse(arguments, command)
    return command_line.finish(lambda: _run(options), title, _PACKAGES)


def _run(options: argparse.Namespace) -> None:
    # Imported here, so that --help needs none of them, and a missing package is reported in a line.
    from tf_condacc.examples.common import backends, report
    from tf_condacc.examples.digits import picture, training
    from tf_condacc.examples.digits import report as own_report

    settings = training.Settings(
        num_workers=options.workers,
        num_required=options.required,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    backend = backends.named(options.backend)
    with report.ProgressBar(settings.steps) as bar:
        history = training.train(
            backend.dense, settings, lambda now: bar.show(now, report.accuracy(now.accuracies))
        )
    print(own_report.table(history, settings, backend.title))
    if options.losses:
        report.save(history, settings, backend.title, options.losses)
    picture.draw(history, settings, backend.title, options.output)
    print(f"  picture: {options.output}")


def _parse(arguments: list[str] | None, command: str) -> argparse.Namespace:
    parser = command_line.new_parser(
        command,
        "Trains a digit classifier with several workers in one process, which push their "
        "gradients into conditional accumulators.",
    )
    command_line.add_accumulator_options(parser)
    command_line.add_training_options(
        parser,
        defaults={"steps": 600, "batch_size": 32, "learning_rate": 1e-3, "output": "demo.png"},
        help_texts={
            "batch_size": "examples in a batch of the fastest worker",
            "learning_rate": "learning rate of the chief's Adam optimizer",
            "seed": "seed of the data split, the batches and the weights",
        },
    )
    return command_line.parse(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
