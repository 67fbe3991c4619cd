"""Ctrl-C while a program of this package is starting.

``python -m tf_condacc.demo`` imports the package, and with it TensorFlow, before any code of the
program runs: nothing there could catch a KeyboardInterrupt.
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
    """Makes Ctrl-C end the process at once if it is a program of this package.

    It ends with status 130 and without a traceback. Programs that import this package, and those
    that ignore or handle Ctrl-C themselves, are left as they are.
    """
    if (
        _is_own_program()
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _exit_now)


def raise_from_now_on() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again: the program has started, and will catch it."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_own_program() -> bool:
    """Whether Python has been started with ``-m`` and the name of a module of this package."""
    # While Python looks for the module, "-m" stands for its path. Its name precedes its arguments.
    if getattr(sys, "argv", [])[:1] != ["-m"]:
        return False
    return _OWN_MODULE.fullmatch(sys.orig_argv[-len(sys.argv)]) is not None


def _exit_now(number: int, frame: FrameType | None) -> None:
    # Without unwinding: TensorFlow and others catch exceptions while they are being imported.
    os._exit(INTERRUPTED)
