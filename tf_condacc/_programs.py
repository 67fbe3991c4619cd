"""The start of the programs of this package: quiet, and ended cleanly by Ctrl-C.

``python -m tf_condacc.demo`` imports the package, and with it TensorFlow, before any code of the
program runs. This module handles Ctrl-C and TensorFlow's log during that import. It changes nothing
in other programs that import this package.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130  # The exit status that a shell reports for a program that Ctrl-C has ended.
_OWN_MODULE = re.compile(r"(-\w*m)?(?P<module>tf_condacc(\.\w+)*)")
# The programs that need no TensorFlow.
_WITHOUT_TENSORFLOW = ("condacc.launch", "condacc.migrate")
_LEGACY = "tf_condacc.compat"
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_LOG_LINE = re.compile(rb"[IWE]\d{4} [\d:.]+ |WARNING: All log messages before absl::InitializeLog")


def exit_quietly_while_starting() -> None:
    """Makes Ctrl-C end the process at once if the process runs a program of this package.

    The process ends with status 130 and without a traceback. Nothing changes in processes that
    ignore or handle Ctrl-C themselves.
    """
    if (
        _own_program() is not None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _exit_now)


def run_without_tensorflow() -> None:
    """Runs the program and ends the process if the program is one that needs no TensorFlow.

    Such programs start without waiting for the import of TensorFlow.
    """
    program = _own_program()
    if program in _WITHOUT_TENSORFLOW:
        sys.exit(importlib.import_module(f"{program}.__main__").main())


def prepare_legacy_program() -> None:
    """Reads the command line if the process was started to run a program for TensorFlow 1.

    The version of Keras has to be selected before TensorFlow is imported, and a wrong command line
    need not wait for the import.
    """
    if _own_program() == _LEGACY:
        importlib.import_module("condacc.run._command_line").prepare(sys.argv[1:])


def raise_from_now_on() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again. A program calls this when it can catch it."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Hides TensorFlow's C++ log if the process runs a program of this package.

    The environment variable TF_CPP_MIN_LOG_LEVEL does this, but some lines are logged while
    TensorFlow's libraries are loaded, before they read it. So these lines are removed from the
    standard error in this context. Nothing is hidden if the variable is set to show something, or
    if the process runs a program for TensorFlow 1, whose log is that program's.
    """
    if _own_program() in (None, _LEGACY):
        yield
        return
    if os.environ.setdefault(_LOG_LEVEL, "3") != "3":
        yield
        return
    try:
        terminal = os.dup(2)
    except OSError:  # The standard error is closed.
        yield
        return
    filtering = _start_filter(terminal)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.waitpid(filtering, 0)


def _start_filter(terminal: int) -> int:
    """Makes a process that copies the standard error of this one without lines of the log.

    A thread would not do: it could not copy the message of an error that aborts the process.

    Args:
        terminal: File descriptor that the process copies to.

    Returns:
        The identifier of the process, which ends when this one closes its standard error.
    """
    source, target = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(target)
            with os.fdopen(source, "rb") as lines:
                for line in lines:
                    if not _LOG_LINE.match(line):
                        os.write(terminal, line)
        finally:
            os._exit(0)
    os.close(source)
    os.dup2(target, 2)
    os.close(target)
    return process


def _own_program() -> str | None:
    """Returns the module of this package that Python was started with ``-m`` to run, or None.

    The ``__main__`` of a package counts as the package.
    """
    # Until Python has found the module, sys.argv[0] is "-m" instead of the module's path. In
    # sys.orig_argv the module's name comes right before the arguments of the program.
    if getattr(sys, "argv", [])[:1] != ["-m"]:
        return None
    own = _OWN_MODULE.fullmatch(sys.orig_argv[-len(sys.argv)])
    return own["module"].removesuffix(".__main__") if own else None


def _exit_now(number: int, frame: FrameType | None) -> None:
    # An exception would not do: TensorFlow and other packages catch exceptions while they are
    # being imported.
    os._exit(INTERRUPTED)
