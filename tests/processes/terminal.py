"""Programs on a terminal, and a user who presses Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.waiting import Background, timed, until

_CTRL_C = b"\x03"
_LOOKS_PER_PRESS = 1200  # Two minutes, at ten looks per second.


@dataclass(frozen=True)
class Ended:
    """The end of a program: its whole output and its exit status."""

    output: str
    status: int


def press_ctrl_c(arguments: Sequence[str], when: str) -> Ended:
    """Runs Python on a terminal, and presses Ctrl-C once the output matches a pattern.

    Python ignores an exception in a finalizer, and so the Ctrl-C that comes while one runs. If the
    program goes on for minutes, it gets another one. How long it takes to end is printed.

    Args:
      arguments: Arguments of Python.
      when: Regular expression that the output must match before Ctrl-C is pressed.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = bytearray()
    _read(terminal, output, until_match=re.compile(when.encode()))
    reading, num_looks = Background(_read, terminal, output), 0

    def has_ended() -> bool:
        nonlocal num_looks
        if not reading.done and num_looks % _LOOKS_PER_PRESS == 0:
            os.write(terminal, _CTRL_C)
        num_looks += 1
        return reading.done

    try:
        with timed("the end after Ctrl-C"):
            until(has_ended, "Ctrl-C ends the program", output.decode, pause_secs=0.1)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    return Ended(output.decode(errors="replace"), os.waitstatus_to_exitcode(status))


def _read(terminal: int, output: bytearray, until_match: re.Pattern[bytes] | None = None) -> None:
    """Reads the output of a program on a terminal, up to a pattern or to the program's end."""
    while until_match is None or not until_match.search(output):
        try:
            output += os.read(terminal, 4096)
        except OSError:  # This is how Linux reports that the other end is closed.
            break
