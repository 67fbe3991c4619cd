"""The command lines of the programs: options that are fields of a class, and the exit status."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tf_condacc import _programs

# The packages that the programs need in addition to those of tf_condacc, by their modules.
_PACKAGES = {"matplotlib.figure": "matplotlib", "tqdm": "tqdm"}
_S = TypeVar("_S", bound="Settings")


def _integer(minimum: int) -> Callable[[str], int]:
    """Returns a function that converts the value of an option to an integer."""

    def integer(text: str) -> int:
        number = int(text)
        if number < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {number}")
        return number

    return integer


def option(
    default: Any,
    help_text: str,
    *,
    minimum: int = 1,
    kind: type | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """Returns a field of a settings class, which is an option of the command line.

    Args:
        default: Default value. The help shows it unless it is None. If it is a tuple, the option
            takes several values.
        help_text: What the option means.
        minimum: The lowest accepted value of an integer.
        kind: Type of the value. By default that of `default`, or of its first element.
        choices: The accepted values, if only some are.
    """
    several = isinstance(default, tuple)
    kind = kind or type(default[0] if several else default)
    shown = " ".join(map(str, default)) if several else default
    arguments = {
        "help": help_text if default is None else f"{help_text} (default: {shown})",
        "type": _integer(minimum) if kind is int else kind,
        "nargs": "+" if several else None,
        "choices": choices,
    }
    return dataclasses.field(default=default, metadata=arguments)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of all programs. A program adds its own in a subclass, and may replace these.

    Raises:
        ValueError: The options contradict each other, or a folder does not exist.
    """

    steps: int = option(300, "training steps")
    seed: int = option(1, "seed of the data, their order and the initial weights", minimum=0)
    output: Path = option(Path("picture.png"), "where to write the picture")
    losses: Path | None = option(
        None, "also write the record of every step there, as JSON", kind=Path
    )

    def __post_init__(self) -> None:
        for path in (self.output, self.losses):
            if path and not path.parent.is_dir():
                raise ValueError(f"{path}: there is no folder {path.parent}")


def run(
    program: Callable[[_S], None],
    settings: type[_S],
    command: str,
    description: str | None,
    arguments: list[str] | None,
) -> int:
    """Parses the command line, runs a program and returns its exit status.

    Args:
        program: Function that runs the program with these settings.
        settings: Class of the settings.
        command: How the program was started, for messages.
        description: What the program does; the first paragraph is part of the help.
        arguments: Command-line arguments; those of the process if None.
    """
    options = _parse(settings, command, (description or "").partition("\n\n")[0], arguments)
    try:
        _programs.raise_from_now_on()
        for module in _PACKAGES:
            importlib.import_module(module)
        program(options)
    except ModuleNotFoundError as error:
        packages = {module.partition(".")[0]: package for module, package in _PACKAGES.items()}
        missing = packages.get((error.name or "").partition(".")[0])
        if missing is None:
            raise
        every = " ".join(packages.values())
        print(f"{command} needs {missing}: pip install {every}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: all workers have stopped.", file=sys.stderr)
        return _programs.INTERRUPTED
    return 0


def _parse(settings: type[_S], command: str, description: str, arguments: list[str] | None) -> _S:
    parser = argparse.ArgumentParser(
        prog=command, description=description, argument_default=argparse.SUPPRESS
    )
    for field in dataclasses.fields(settings):
        parser.add_argument(f"--{field.name.replace('_', '-')}", **field.metadata)
    given = vars(parser.parse_args(arguments))
    several = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    try:
        return settings(**given | several)
    except ValueError as error:
        parser.error(str(error))
