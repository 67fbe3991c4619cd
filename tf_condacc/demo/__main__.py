"""The command line of the demo: ``python -m tf_condacc.demo``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_condacc.demo.graph import AccumulatorClass
    from tf_condacc.demo.training import Settings

_PACKAGES = ("scikit-learn", "matplotlib", "tqdm")
_INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C has ended


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo and returns its exit status."""
    options = _parse(arguments)
    try:
        return _run(options)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = {"sklearn": "scikit-learn"}.get(module, module)
        if package not in _PACKAGES:
            raise
        print(f"The demo needs {package}: pip install {' '.join(_PACKAGES)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: all workers have stopped.", file=sys.stderr)
        return _INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    # Imported here, so that a missing one is reported in a line and --help does without them.
    from tf_condacc.demo import picture, report, training

    settings = _settings(options)
    accumulator_class, accumulator = _backend(options.backend)
    with report.ProgressBar(settings.steps) as bar:
        history = training.train(accumulator_class, settings, bar.show)
    print(report.table(history, settings, accumulator))
    if options.losses:
        report.save(history, settings, accumulator, options.losses)
    picture.draw(history, settings, accumulator, options.output)
    print(f"  picture: {options.output}")
    return 0


def _backend(name: str) -> tuple[AccumulatorClass, str]:
    """Returns the accumulator class and how to call it in what is shown."""
    if name == "tf":
        import tensorflow as tf

        return tf.compat.v1.ConditionalAccumulator, f"TensorFlow {tf.__version__}"
    import tf_condacc

    return tf_condacc.ConditionalAccumulator, f"tf_condacc {tf_condacc.__version__}"


def _settings(options: argparse.Namespace) -> Settings:
    from tf_condacc.demo.training import Settings

    return Settings(
        num_workers=options.workers,
        num_required=options.required,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tf_condacc.demo",
        description="Trains a digit classifier with several workers in one process, which push "
        "their gradients into conditional accumulators.",
        epilog="Set TF_CPP_MIN_LOG_LEVEL=3 to keep TensorFlow's own messages off the terminal.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--backend", choices=["condacc", "tf"], default="condacc", help="whose accumulators")
    add("--workers", type=_positive, default=4, help="number of workers")
    add(
        "--required",
        type=_positive,
        default=argparse.SUPPRESS,
        help="gradients that the chief waits for in each step (default: all but one)",
    )
    add("--steps", type=_positive, default=600, help="training steps")
    add(
        "--batch-size", type=_positive, default=32, help="examples in a batch of the fastest worker"
    )
    add("--learning-rate", type=float, default=1e-3, help="of the chief's Adam optimizer")
    add("--seed", type=int, default=1, help="of the data split, the batches and the weights")
    add("--output", type=Path, default=Path("demo.png"), help="where to write the picture")
    add("--losses", type=Path, help="also write the loss of every step there, as JSON")
    options = parser.parse_args(arguments)
    options.required = getattr(options, "required", max(1, options.workers - 1))
    if options.required > options.workers:
        parser.error(f"--required {options.required}, but there are {options.workers} workers")
    for path in (options.output, options.losses):
        if path and not path.parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
