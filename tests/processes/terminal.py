"""Programs on a terminal, and a user who presses Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.waiting import timed

_CTRL_C = b"\x03"


@dataclass(frozen=True)
class Ended:
    """The end of a program: its whole output and its exit status."""

    output: str
    status: int


def press_ctrl_c(arguments: Sequence[str], when: str) -> Ended:
    """Runs Python on a terminal, and presses Ctrl-C once the output matches a pattern.

    How long the program takes to end is printed.

    Args:
      arguments: Arguments of Python.
      when: Regular expression that the output must match before Ctrl-C is pressed.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = _read(terminal, until=re.compile(when.encode()))
    with timed("the end after Ctrl-C"):
        os.write(terminal, _CTRL_C)
        output += _read(terminal)
        _, status = os.waitpid(child, 0)
    os.close(terminal)
    return Ended(output.decode(errors="replace"), os.waitstatus_to_exitcode(status))


def _read(terminal: int, until: re.Pattern[bytes] | None = None) -> bytes:
    """Reads the output of a program on a terminal, up to ``until`` or to the program's end."""
    output = b""
    while until is None or not until.search(output):
        try:
            output += os.read(terminal, 4096)
        except OSError:  # This is how Linux reports that the other end is closed.
            break
    return output
