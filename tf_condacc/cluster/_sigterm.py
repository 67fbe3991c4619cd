"""Ends a process in good order at SIGTERM."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

_LOG = logging.getLogger("tf_condacc")
_started: set[SigtermHandler] = set()
_STOP = b"\0"  # Ends the thread; no signal has this number.
_STATUS = 128 + signal.SIGTERM  # That which a shell reports for a process that SIGTERM has ended.


class SigtermHandler:
    """Calls a function at SIGTERM, and then ends the process with status 143.

    The main thread may be inside a step, where Python runs no handlers of signals. So the handler
    in C writes to a pipe, and a thread reads it. The main thread goes on meanwhile.

    A handler of the program's own takes precedence, also if it is set later. So does a SIGTERM that
    is ignored.

    Args:
        leave: The function. Errors that it raises are logged.
        limit_secs: Time after which the process ends in any case.
    """

    def __init__(self, leave: Callable[[], None], limit_secs: float) -> None:
        self._leave = leave
        self._limit_secs = limit_secs
        self._thread: threading.Thread | None = None
        self._other_target = -1

    def start(self) -> None:
        """Begins to handle the signal. Does nothing outside the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._source, self._target = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._target, False)
        self._thread = threading.Thread(target=self._read, name="SIGTERM", daemon=True)
        self._thread.start()
        self._other_target = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._write)
        _started.add(self)

    def stop(self) -> None:
        """Restores what was before. Does not return if the signal has come: the process ends."""
        if self._thread is None:
            return
        self._restore()
        os.write(self._target, _STOP)  # A fork may hold the pipe open, so closing it is not enough.
        self._thread.join()
        os.close(self._target)
        self._thread = None

    def _restore(self) -> None:
        _started.discard(self)
        if signal.getsignal(signal.SIGTERM) == self._write:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        current = signal.set_wakeup_fd(self._other_target)
        if current != self._target:  # The program has set one of its own.
            signal.set_wakeup_fd(current)

    def _write(self, number: int, frame: FrameType | None) -> None:
        """Writes the number again: the handler in C writes to the last pipe that was set."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._target, bytes([number]))

    def _read(self) -> None:
        is_stopped = False
        while not is_stopped:
            numbers = os.read(self._source, 4096)
            is_stopped = _STOP in numbers
            numbers = numbers.replace(_STOP, b"")
            if self._other_target >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._other_target, numbers)
            # It has the default action again if this object was stopped meanwhile.
            is_own = signal.getsignal(signal.SIGTERM) in (self._write, signal.SIG_DFL)
            if signal.SIGTERM in numbers and is_own:
                self._end()
        os.close(self._source)

    def _end(self) -> None:
        late = threading.Timer(self._limit_secs, self._end_late)
        late.daemon = True
        late.start()
        try:
            self._leave()
        except BaseException as error:
            _LOG.warning("SIGTERM: %s", error)
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # It may be closed.
                stream.flush()
        os._exit(_STATUS)

    def _end_late(self) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"SIGTERM: the process ends after %g s.\n" % self._limit_secs)
        os._exit(_STATUS)


class _Fork(threading.local):
    """Restores the default action in a fork, whose signals would reach the pipe of its parent."""

    def before(self) -> None:
        """Keeps the signal from the fork until it has the default action."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM} if _started else ())

    def after_in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def after_in_child(self) -> None:
        for handler in list(_started):
            handler._restore()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


_fork = _Fork()
os.register_at_fork(
    before=_fork.before,
    after_in_parent=_fork.after_in_parent,
    after_in_child=_fork.after_in_child,
)
