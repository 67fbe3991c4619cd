"""Handling of Ctrl-C while a program of this package is starting.

``python -m tf_condacc.demo`` imports the package, and with it TensorFlow, before any code of the
program runs. The program cannot catch a KeyboardInterrupt that is raised during this import.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130  # The exit status that a shell reports for a program that Ctrl-C has ended.
_OWN_MODULE = re.compile(r"(-\w*m)?tf_condacc(\.\w+)*")


def exit_quietly_while_starting() -> None:
    """Makes Ctrl-C end the process at once if the process runs a program of this package.

    The process ends with status 130 and without a traceback. Nothing changes in other programs that
    import this package, and in processes that ignore or handle Ctrl-C themselves.
    """
    if (
        _is_own_program()
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _exit_now)


def raise_from_now_on() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again. Called when the program can catch it."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_own_program() -> bool:
    """Returns whether Python was started with ``-m`` and the name of a module of this package."""
    # Until Python has found the module, sys.argv[0] is "-m" instead of the module's path. In
    # sys.orig_argv the module's name comes right before the arguments of the program.
    if getattr(sys, "argv", [])[:1] != ["-m"]:
        return False
    return _OWN_MODULE.fullmatch(sys.orig_argv[-len(sys.argv)]) is not None


def _exit_now(number: int, frame: FrameType | None) -> None:
    # An exception would not do: TensorFlow and other packages catch exceptions while they are
    # being imported.
    os._exit(INTERRUPTED)
