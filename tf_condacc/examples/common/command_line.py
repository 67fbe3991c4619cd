"""Command lines of programs that train: their common options, and how they end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tf_condacc import _interrupts

_PACKAGES_OF_MODULES = {"sklearn": "scikit-learn"}


def finish(run: Callable[[], None], program: str, packages: tuple[str, ...]) -> int:
    """Runs a program to its end and returns its exit status.

    Args:
      run: the program. It imports what it needs itself, so that what is missing can be named.
      program: what to call it.
      packages: what it needs besides what tf_condacc itself needs.
    """
    try:
        _interrupts.raise_from_now_on()
        run()
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = _PACKAGES_OF_MODULES.get(module, module)
        if package not in packages:
            raise
        print(f"{program} needs {package}: pip install {' '.join(packages)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: all workers have stopped.", file=sys.stderr)
        return _interrupts.INTERRUPTED
    return 0


def new_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser without options."""
    return argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="Set TF_CPP_MIN_LOG_LEVEL=3 to keep TensorFlow's own messages off the terminal.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def add_accumulator_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a training through accumulators."""
    add = parser.add_argument
    add("--backend", choices=["condacc", "tf"], default="condacc", help="whose accumulators")
    add(
        "--required",
        type=positive,
        default=argparse.SUPPRESS,
        help="gradients that the chief waits for in each step (default: all but one)",
    )


def add_training_options(
    parser: argparse.ArgumentParser, defaults: Mapping[str, object], help_texts: Mapping[str, str]
) -> None:
    """Adds the options of every training.

    Args:
      parser: to which they are added.
      defaults: of ``steps``, ``batch_size``, ``learning_rate`` and ``output``.
      help_texts: of ``batch_size``, ``learning_rate`` and ``seed``; of ``steps`` and ``losses``
        where there is more to say of them.
    """
    help_texts = {
        "steps": "training steps",
        "losses": "also write the loss of every step there, as JSON",
        **help_texts,
    }
    add = parser.add_argument
    add("--workers", type=positive, default=4, help="number of workers")
    add("--steps", type=positive, default=defaults["steps"], help=help_texts["steps"])
    batch_size, rate = defaults["batch_size"], defaults["learning_rate"]
    add("--batch-size", type=positive, default=batch_size, help=help_texts["batch_size"])
    add("--learning-rate", type=float, default=rate, help=help_texts["learning_rate"])
    add("--seed", type=int, default=1, help=help_texts["seed"])
    picture = Path(str(defaults["output"]))
    add("--output", type=Path, default=picture, help="where to write the picture")
    add("--losses", type=Path, help=help_texts["losses"])


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line and refuses options that do not fit each other."""
    options = parser.parse_args(arguments)
    if "backend" in options:
        options.required = getattr(options, "required", max(1, options.workers - 1))
        if options.required > options.workers:
            parser.error(f"--required {options.required}, but there are {options.workers} workers")
    for path in (options.output, options.losses):
        if path and not path.parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    return options


def positive(text: str) -> int:
    """Type of an option that is a number from 1 on."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Type of an option that is a number from 0 on."""
    return _at_least(0, text)


def _at_least(minimum: int, text: str) -> int:
    number = int(text)
    if number < minimum:
        raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {number}")
    return number
