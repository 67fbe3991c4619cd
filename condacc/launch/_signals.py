"""Signals as events of a loop."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterable
from types import FrameType


class Signals:
    """Receives signals in the main thread and hands them out one by one.

    A signal that the process ignored when it was started stays ignored, as nohup and shells that
    start a job in the background expect. After the context, all of the signals are ignored, so that
    one that comes late does not change the exit status of the process, which is about to end.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = list(numbers)
        self._source = self._target = -1

    def __enter__(self) -> Signals:
        self._source, self._target = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        for number in self._numbers:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if number == signal.SIGCHLD or not ignored:
                signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        source, target = self._source, self._target
        self._source = self._target = -1
        os.close(source)
        os.close(target)

    def wake(self) -> None:
        """Ends a wait early. Any thread may call this."""
        with contextlib.suppress(OSError):  # A full pipe wakes too; a closed one need not.
            os.write(self._target, b"\0")

    def wait(self, timeout_secs: float) -> list[int]:
        """Returns the signals that have come, in their order, or nothing after the time limit."""
        select.select([self._source], [], [], max(0.0, timeout_secs))
        try:
            return [number for number in os.read(self._source, 4096) if number]
        except BlockingIOError:
            return []


def _note(number: int, frame: FrameType | None) -> None:
    """Does nothing: Python writes the number to the pipe before it calls this."""
