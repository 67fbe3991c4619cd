"""The command ``condacc``, which is also ``python -m condacc``."""

from __future__ import annotations

import argparse
import importlib
import sys

from condacc import __version__
from condacc._interrupts import exit_on_interrupt, exit_without_reader

# The module of each subcommand, and what it does. A module is imported only if its subcommand is
# used, so that no command waits for what another one imports.
_SUBCOMMANDS = {
    "run": ("condacc.run", "run a program for TensorFlow 1, unedited"),
    "launch": ("condacc.launch._command", "start the tasks of a cluster on this machine"),
    "migrate": ("condacc.migrate._command", "rewrite programs for TensorFlow 1"),
    "build": ("condacc.build", "compile the native library for the installed TensorFlow"),
    "info": ("condacc.info", "print the versions that a bug report needs"),
}
_NO_COMMAND = 2  # The exit status of argparse for a wrong command line.
_LIST = "\n".join(f"  {name:9}{text}" for name, (_, text) in _SUBCOMMANDS.items())


def main() -> int | None:
    """Runs the subcommand that the command line names, and returns the exit status."""
    exit_on_interrupt()
    if sys.argv[1:2] == ["run"]:  # The errors of the program are shown as without this command.
        return _run()
    with exit_without_reader():
        return _run()


def _run() -> int | None:
    parser = argparse.ArgumentParser(
        prog="condacc",
        usage="condacc COMMAND [ARGUMENT ...]",
        description="The command-line tools of tf_condacc.",
        epilog=f"commands:\n{_LIST}\n\n`condacc COMMAND --help` describes a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tf_condacc {__version__}")
    # Optional, so that a wrong option is not reported as a missing command.
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=_SUBCOMMANDS, help=argparse.SUPPRESS
    )
    command = parser.parse_args(sys.argv[1:2]).command
    if command is None:
        parser.print_help()
        return _NO_COMMAND
    module, _ = _SUBCOMMANDS[command]
    status: int | None = importlib.import_module(module).main(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
