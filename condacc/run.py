"""``condacc run``: the command line of the runner of programs for TensorFlow 1.

The command line is read before TensorFlow is imported, because TensorFlow then reads the version of
Keras that it takes from the environment.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from condacc import _python2, versions
from condacc._interrupts import exit_without_reader, raise_on_interrupt

_WITH_VALUE = ("--root", "--also", "--not")
_DESCRIPTION = """\
Runs a program that was written for TensorFlow 1, unedited. In SCRIPT and in all modules that are
not installed, "import tensorflow" means tf.compat.v1, the behaviour of version 2 is off, and
tf.contrib, tf.estimator, the accumulators and SyncReplicasOptimizer come from tf_condacc and, if
they are installed, from tf-slim (tf.contrib.slim, layers, ...), tensorflow-estimator
(tf.estimator) and tf-keras (Keras 2: tf.layers, tf.nn.rnn_cell, tf.keras and "import keras").
Installed packages import TensorFlow as usual.
"""
_EPILOG = """\
examples:
  condacc run train.py --batch_size 32
  condacc run -m trainer.task
  condacc run --root .. --also tensor2tensor train.py
  condacc launch --workers 2 -- condacc run train.py
"""


def main(arguments: Sequence[str]) -> None:
    """Runs a program. Its exceptions are raised.

    Args:
        arguments: Arguments of the runner, and then those of the program.
    """
    with exit_without_reader():  # It may print the help.
        options = parse(arguments)
    _check_syntax(options)
    why_keras = select_keras(options)
    program = importlib.import_module("tf_condacc.compat._runner.program")
    start = program.prepare(options, why_keras)
    raise_on_interrupt()
    start()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses a command line, and ends the process if it is wrong or asks for help.

    Args:
        arguments: Arguments of the runner, and then those of the program.

    Returns:
        The options by their names; and `script`, the path of the program, or `module`, the name of
        its module, of which the other one is None; and `arguments`, those of the program.
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
            parser.error(f"no such file: {script} (options of the program follow its file)")
    options.script, options.module, options.arguments = script, module, rest
    return options


def _check_syntax(options: argparse.Namespace) -> None:
    """Ends the process if the program is not Python 3, before it waits for TensorFlow's import.

    Only the file of the program is read. Python reads the others when the program imports them.
    """
    if options.script:
        files = [Path(options.script)]
    else:
        path = Path(*(options.module or "").split("."))
        files = [path.with_suffix(".py"), path / "__main__.py"]
    for file in filter(Path.is_file, files):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # They come when the program is compiled.
                compile(file.read_bytes(), str(file), "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            traceback.print_exception(type(error), error, None)
            if text := _python2.advice(error):
                print(f"condacc run: {text}", file=sys.stderr)
            sys.exit(1)


def select_keras(options: argparse.Namespace) -> str:
    """Selects the version of Keras for a TensorFlow that is not imported yet.

    The process ends if a package is missing.

    Returns:
        Why this version was selected.
    """
    if importlib.util.find_spec("tensorflow") is None:
        _parser().error(f"TensorFlow is missing: pip install 'tensorflow=={versions.release()}.*'")
    if versions.brings_keras2():
        return f"it belongs to TensorFlow {versions.release()}"
    is_installed = importlib.util.find_spec("tf_keras") is not None
    if options.keras == 2 and not is_installed:
        _parser().error(f"--keras2 needs the package tf-keras: {versions.install_tf_keras()}")
    version, why = _selected(options, is_installed)
    versions.take_keras(version)
    return why


def _selected(options: argparse.Namespace, is_installed: bool) -> tuple[int, str]:
    """Returns the version of Keras for a program, and why.

    Args:
        options: The command line.
        is_installed: Whether there is Keras 2.
    """
    if options.keras is not None:
        return options.keras, f"--keras{options.keras} asks for it"
    if value := os.environ.get(versions.LEGACY_KERAS):
        return 2 if versions.uses_keras2() else 3, f"{versions.LEGACY_KERAS} is {value}"
    if not is_installed:
        return 3, f"there is no Keras 2: {versions.install_tf_keras()}"
    return 2, "it is installed; --keras3 takes Keras 3"


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
    keras = parser.add_mutually_exclusive_group()
    helps = {
        2: "take keras, tf.keras, tf.layers and tf.nn.rnn_cell from the package tf-keras",
        3: "take keras and tf.keras from the package keras, which has no tf.layers",
    }
    for version, text in helps.items():
        keras.add_argument(
            f"--keras{version}", action="store_const", const=version, dest="keras", help=text
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
