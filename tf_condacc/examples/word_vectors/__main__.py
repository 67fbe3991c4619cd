"""The command line of the example: ``python -m tf_condacc.examples.word_vectors``."""

from __future__ import annotations

import argparse
import sys

from tf_condacc.examples.common import command_line

_PACKAGES = ("matplotlib", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Runs the example and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
    """
    options = _parse(arguments)
    return command_line.finish(lambda: _run(options), "The example", _PACKAGES)


def _run(options: argparse.Namespace) -> None:
    # Imported here, so that --help needs none of them, and a missing package is reported in a line.
    import tensorflow as tf

    from tf_condacc.examples.common import backends, report
    from tf_condacc.examples.word_vectors import picture, training
    from tf_condacc.examples.word_vectors import report as own_report
    from tf_condacc.examples.word_vectors.text import Text

    tf.get_logger().setLevel("ERROR")  # Its Adagrad optimizer triggers its own warnings.
    settings = training.Settings(
        num_workers=options.workers,
        num_required=options.required,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        width=options.width,
        seed=options.seed,
    )
    backend, text = backends.named(options.backend), Text()
    with report.ProgressBar(settings.steps) as bar:
        history, learned = training.train(
            backend, text, settings, lambda now: bar.show(now, more={})
        )
    print(own_report.table(history, settings, text, backend.title))
    print(own_report.neighbours(learned, text))
    comparisons = own_report.comparisons(learned)
    print(own_report.correctness(comparisons, learned, backend.title))
    if options.losses:
        report.save(history, settings, backend.title, options.losses)
    picture.draw(history, settings, len(text.vocabulary), backend.title, options.output)
    print(f"Picture: {options.output}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command_line.new_parser(
        "python -m tf_condacc.examples.word_vectors",
        "Learns word vectors from the language reference that comes with Python, with several "
        "workers in one process, which push the gradients of embeddings into sparse conditional "
        "accumulators.",
    )
    command_line.add_accumulator_options(parser)
    command_line.add_training_options(
        parser,
        defaults={
            "steps": 4000,
            "batch_size": 256,
            "learning_rate": 0.1,
            "output": "word_vectors.png",
        },
        help_texts={
            "batch_size": "pairs of words in a batch",
            "learning_rate": "learning rate of the chief's Adagrad optimizer",
            "seed": "seed of the batches and the initial vectors",
        },
    )
    parser.add_argument(
        "--width", type=command_line.positive, default=48, help="size of a word's vector"
    )
    return command_line.parse(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
