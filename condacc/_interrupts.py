"""Ctrl-C before a subcommand can handle it, and other signals that end a process."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

INTERRUPTED = 130  # The exit status that a shell reports for a program that Ctrl-C has ended.


def exit_on_interrupt() -> None:
    """Makes Ctrl-C end the process at once, with status 130 and without a traceback.

    An exception would not do while packages are imported: TensorFlow and others catch exceptions
    then. Nothing changes in a process that ignores or handles Ctrl-C already.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _exit_now)


def raise_on_interrupt() -> None:
    """Undoes `exit_on_interrupt`: Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raise_on_termination() -> None:
    """Makes SIGTERM and SIGHUP raise SystemExit, so that the process cleans up before it ends."""

    def exit_as_killed(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, exit_as_killed)


def _exit_now(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
