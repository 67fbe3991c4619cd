"""``condacc run``: the command line of the runner of programs for TensorFlow 1.

The command line is read before TensorFlow is imported, because TensorFlow then reads the version of
Keras that it takes from the environment.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import os
from collections.abc import Sequence

from condacc import versions
from condacc._interrupts import raise_on_interrupt

_WITH_VALUE = ("--root", "--also", "--not")
_DESCRIPTION = """\
Runs a program that was written for TensorFlow 1, unedited. In SCRIPT and in all modules that are
not installed, "import tensorflow" means tf.compat.v1, the behaviour of version 2 is off, and
tf.contrib, tf.estimator, the accumulators and SyncReplicasOptimizer come from tf_condacc and, if
they are installed, from tf-slim (tf.contrib.slim, layers, ...), tensorflow-estimator
(tf.estimator) and tf-keras (with --keras2). Installed packages import TensorFlow as usual.
"""
_EPILOG = """\
examples:
  condacc run train.py --batch_size 32
  condacc run --keras2 -m trainer.task
  condacc run --root .. --also tensor2tensor train.py
  condacc launch --workers 2 -- condacc run train.py

docs/guides/compat.md lists what is provided, and what is not.
"""


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of the command line.

    Attributes:
        keras2: Whether Keras 2 replaces Keras 3.
        quiet: Whether the runner says nothing about what it provides.
        script: Path of the program, or None if `module` is given.
        module: Name of the program's module, or None if `script` is given.
        arguments: Arguments of the program.
        roots: Folders whose modules belong to the program.
        also: Installed packages that belong to the program.
        excluded: Packages that do not belong to the program.
    """

    keras2: bool
    quiet: bool
    script: str | None
    module: str | None
    arguments: list[str]
    roots: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> None:
    """Runs a program. Its exceptions are raised.

    Args:
        arguments: Arguments of the runner, and then those of the program.
    """
    options = parse(arguments)
    select_keras(options)
    start = importlib.import_module("tf_condacc.compat._runner.program").prepare(options)
    raise_on_interrupt()
    start()


def parse(arguments: Sequence[str]) -> Options:
    """Parses a command line, and ends the process if it is wrong or asks for help.

    Args:
        arguments: Arguments of the runner, and then those of the program.
    """
    parser = _parser()
    end = 0
    while end < len(arguments) and arguments[end].startswith("-") and arguments[end] != "-m":
        end += 2 if arguments[end] in _WITH_VALUE else 1
    options = parser.parse_args(arguments[:end])
    program = list(arguments[end:])
    if not program:
        parser.error("missing program, as in: condacc run train.py")
    script = module = None
    if program[0] == "-m":
        if len(program) == 1:
            parser.error("-m needs the name of a module")
        module, rest = program[1], program[2:]
    else:
        script, rest = program[0], program[1:]
        if not os.path.isfile(script):
            parser.error(f"no such file: {script}")
    return Options(
        options.keras2,
        options.quiet,
        script,
        module,
        rest,
        tuple(options.roots),
        tuple(options.also),
        tuple(options.excluded),
    )


def select_keras(options: Options) -> None:
    """Selects the version of Keras for a TensorFlow that is not imported yet.

    The process ends if a package is missing.
    """
    if importlib.util.find_spec("tensorflow") is None:
        _parser().error(f"TensorFlow is missing: pip install 'tensorflow=={versions.release()}.*'")
    if not options.keras2 or versions.brings_keras2():
        return
    if importlib.util.find_spec("tf_keras") is None:
        _parser().error(f"--keras2 needs the package tf-keras: {versions.install_tf_keras()}")
    versions.take_keras2()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="condacc run",
        usage="condacc run [options] SCRIPT [ARGUMENT ...]\n"
        "       condacc run [options] -m MODULE [ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--keras2",
        action="store_true",
        help="make tf.layers, tf.nn.rnn_cell and tf.keras those of Keras 2 (package tf-keras)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="do not print what is provided when the program starts"
    )
    extent = (
        ("--root", "DIR", _folder, "roots", "the modules in DIR belong to the program"),
        ("--also", "PACKAGE", str, "also", "the installed PACKAGE belongs to the program"),
        ("--not", "PACKAGE", str, "excluded", "PACKAGE does not belong to the program"),
    )
    for name, metavar, kind, target, text in extent:
        parser.add_argument(
            name,
            metavar=metavar,
            type=kind,
            dest=target,
            action="append",
            default=[],
            help=f"{text}; may be repeated",
        )
    return parser


def _folder(path: str) -> str:
    """Converts the value of an option to the path of a folder that exists."""
    if not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"no such folder: {path}")
    return os.path.realpath(path)
