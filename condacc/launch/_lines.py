"""Cuts what a task writes into lines, progress bars included."""

from __future__ import annotations

import re

from condacc import _times

MAX_LINE_BYTES = 1 << 16
_LINE_END = re.compile(rb"\r?\n|\r(?!\n|\Z)")


class LineSplitter:
    """Cuts a stream of bytes into lines.

    A carriage return ends a line as a newline does, because programs write it before or after each
    state of a progress bar. Of these states, the newest is returned now and then. A line that is
    longer than `MAX_LINE_BYTES` is returned in pieces.
    """

    def __init__(self) -> None:
        self._rest = b""  # What came after the last line end.
        self._in_progress = False  # Whether that line end was a carriage return.
        self._state = b""  # The newest state of a progress bar that has a line end.
        self._shown = b""  # The state that was returned last.
        self._next_state_at = 0.0
        self._fed_at = 0.0

    @property
    def due(self) -> float | None:
        """The time at which `states` has something to return; None if there is nothing."""
        return min((at for at, _ in self._new_states()), default=None)

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """Takes what has been read at a time, and returns the lines that it completes."""
        data = self._rest + data
        lines: list[bytes] = []
        start = 0
        for end in _LINE_END.finditer(data):
            lines += self._end_line(data[start : end.start()], end.group())
            start = end.end()
        *pieces, self._rest = _pieces(data[start:])
        lines += pieces
        self._fed_at = now
        return [piece for line in lines for piece in _pieces(line)] + self.states(now)

    def states(self, now: float) -> list[bytes]:
        """Returns the newest state of a progress bar, if it is time to show it."""
        due = [state for at, state in self._new_states() if at <= now]
        if not due:
            return []
        self._shown, self._state = due[-1], b""
        self._next_state_at = now + _times.current.progress_secs
        return due[-1:]

    def close(self) -> list[bytes]:
        """Returns what is left at the end of the stream."""
        rest = self._rest.rstrip(b"\r")
        last = rest if rest.strip() else self._state
        self._rest = self._state = b""
        return [last] if last and last != self._shown else []

    def _new_states(self) -> list[tuple[float, bytes]]:
        """Returns states of a progress bar that have not been shown, and when they are due.

        A program may write the carriage return before a state. Then the state has no line end, and
        is complete if nothing has come after it for a while.
        """
        states = [(self._next_state_at, self._state)]
        if self._in_progress or self._rest.endswith(b"\r"):
            rest = self._rest.rstrip(b"\r")
            settled_at = self._fed_at + _times.current.settled_secs
            states.append((max(self._next_state_at, settled_at), rest))
        return [each for each in states if each[1].strip() and each[1] != self._shown]

    def _end_line(self, line: bytes, end: bytes) -> list[bytes]:
        is_state, self._in_progress = self._in_progress, end == b"\r"
        if self._in_progress:
            if line.strip():
                self._state = line
            return []
        if is_state and not line:  # The line end of the last state.
            lines = [self._state] if self._state not in (b"", self._shown) else []
        else:
            lines = [] if line and line == self._shown else [line]
        self._state = self._shown = b""
        return lines


def _pieces(line: bytes) -> list[bytes]:
    """Splits a line into pieces of at most MAX_LINE_BYTES."""
    starts = range(0, max(1, len(line)), MAX_LINE_BYTES)
    return [line[start : start + MAX_LINE_BYTES] for start in starts]
