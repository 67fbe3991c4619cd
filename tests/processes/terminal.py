"""Programs on a terminal, and a user who presses Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass

_CTRL_C = b"\x03"


@dataclass(frozen=True)
class Ended:
    """The end of a program: its whole output, its exit status, and the seconds after Ctrl-C."""

    output: str
    status: int
    seconds: float


def press_ctrl_c(arguments: Sequence[str], when: str) -> Ended:
    """Runs Python on a terminal, and presses Ctrl-C once the output matches a pattern.

    Args:
      arguments: Arguments of Python.
      when: Regular expression that the output must match before Ctrl-C is pressed.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = _read(terminal, until=re.compile(when.encode()))
    pressed = time.monotonic()
    os.write(terminal, _CTRL_C)
    output += _read(terminal)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return Ended(
        output.decode(errors="replace"),
        os.waitstatus_to_exitcode(status),
        time.monotonic() - pressed,
    )


def _read(terminal: int, until: re.Pattern[bytes] | None = None) -> bytes:
    """Reads the output of a program on a terminal, up to ``until`` or to the program's end."""
    output = b""
    while until is None or not until.search(output):
        try:
            output += os.read(terminal, 4096)
        except OSError:  # This is how Linux reports that the other end is closed.
            break
    return output
