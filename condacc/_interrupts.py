"""Ctrl-C before a subcommand can handle it, other signals, and the end of a pipe's reader."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType

INTERRUPTED = 130  # The exit status that a shell reports for a program that Ctrl-C has ended.
_NO_READER = 141  # The same for SIGPIPE.
_TERMINATIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Delays Ctrl-C, SIGTERM and SIGHUP to the end of this context, in the main thread.

    In other threads they raise no exceptions. Processes that are forked in the context ignore them.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _TERMINATIONS if is_main}
    held: list[int] = []
    try:
        for number in before:
            signal.signal(number, lambda each, frame: held.append(each))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in held:
            signal.raise_signal(each)


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


def shorten_interrupt() -> None:
    """Makes a Ctrl-C that nobody handles print one line instead of a traceback.

    A launcher sends it to all tasks at once. An exception hook of the program takes precedence.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_exception


def raise_on_termination() -> None:
    """Makes SIGTERM and SIGHUP raise SystemExit, so that the process cleans up before it ends."""

    def exit_as_killed(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        for number in _TERMINATIONS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, exit_as_killed)


@contextlib.contextmanager
def exit_without_reader() -> Iterator[None]:
    """Returns a context that ends the process silently if nobody reads its standard output.

    Raises:
        SystemExit: The reader of the pipe has gone, as in ``condacc info | head -1``.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # It is None if it was closed before Python started.
                sys.stdout.flush()
    except BrokenPipeError:
        # Python would fail again when it flushes the output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_NO_READER) from None


def _exit_now(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _print_exception(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print(kind.__name__, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
