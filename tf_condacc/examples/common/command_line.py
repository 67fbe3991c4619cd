"""The common options of the example programs, and the handling of their exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tf_condacc import _programs

_PACKAGES_OF_MODULES = {"sklearn": "scikit-learn"}


def finish(run: Callable[[], None], program: str, packages: tuple[str, ...]) -> int:
    """Runs a program, and returns its exit status.

    Args:
        run: Function that runs the program. It imports the packages that it needs, so that a
            missing one can be reported.
        program: What the program is called in messages.
        packages: Packages that the program needs in addition to those of tf_condacc.
    """
    try:
        _programs.raise_from_now_on()
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
        return _programs.INTERRUPTED
    return 0


def new_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """Returns a parser without options."""
    return argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="Set TF_CPP_MIN_LOG_LEVEL=3 to keep TensorFlow's own messages off the terminal.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def add_accumulator_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of programs that train with accumulators."""
    add = parser.add_argument
    add(
        "--backend",
        choices=["condacc", "tf"],
        default="condacc",
        help="library whose accumulators are used",
    )
    add(
        "--required",
        type=positive,
        default=argparse.SUPPRESS,
        help="gradients that the chief waits for in each step (default: all but one)",
    )


def add_training_options(
    parser: argparse.ArgumentParser, defaults: Mapping[str, object], help_texts: Mapping[str, str]
) -> None:
    """Adds the options of all programs that train.

    Args:
        parser: The parser that the options are added to.
        defaults: Default values of ``steps``, ``batch_size``, ``learning_rate`` and ``output``.
        help_texts: Help texts of ``batch_size``, ``learning_rate`` and ``seed``, and optionally of
            ``steps`` and ``losses``.
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
    """Parses the command line, and rejects combinations of options that are not possible."""
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
    """Converts the value of an option to an integer of at least 1."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Converts the value of an option to an integer of at least 0."""
    return _at_least(0, text)


def _at_least(minimum: int, text: str) -> int:
    number = int(text)
    if number < minimum:
        raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {number}")
    return number
