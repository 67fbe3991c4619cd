"""The process of a task, with the processes that it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_HERE = Path(__file__).resolve().parent
# A bare Python starts in 10 ms: no site packages, no environment variables.
_BARE_PYTHON = (sys.executable, "-I", "-S")


class Guard:
    """A process that kills groups of processes if this process can no longer do so."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*_BARE_PYTHON, str(_HERE / "_guard.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def add(self, group: int) -> None:
        """Tells the guard that a group has been started."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Tells the guard that nothing of a group is left."""
        self._write(f"-{group}\n")

    def close(self) -> None:
        """Ends the guard. It kills what is left."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # The guard may have been killed.
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


class TaskProcess:
    """A process that was started for a task, in its own process group and session.

    Attributes:
        pipes: What the process writes: its standard output and its standard error.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], guard: Guard
    ) -> None:
        """Starts the process. Raises OSError. Only the main thread may do this.

        The kernel kills the process when the *thread* that has started it ends.
        """
        launcher = str(os.getpid())
        self._guard = guard
        self._process = subprocess.Popen(
            [*_BARE_PYTHON, str(_HERE / "_exec.py"), launcher, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        guard.add(self.pid)
        assert self._process.stdout is not None and self._process.stderr is not None
        self.pipes: tuple[IO[bytes], IO[bytes]] = (self._process.stdout, self._process.stderr)
        self._plan: list[tuple[float, int]] = []
        self._has_remains = True

    @property
    def pid(self) -> int:
        """The identifier of the process, which is also that of its group."""
        return self._process.pid

    def poll(self) -> int | None:
        """Returns the status of the process if it has ended: 128 + number if by a signal."""
        status = self._process.poll()
        return status if status is None or status >= 0 else 128 - status

    def signal(self, number: int) -> None:
        """Sends a signal to the processes of the group.

        After SIGINT and SIGTERM, SIGCONT is sent, because a stopped process would not handle them.
        """
        if self._has_remains:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
                if number in (signal.SIGINT, signal.SIGTERM):
                    os.killpg(self.pid, signal.SIGCONT)

    def plan(self, *steps: tuple[float, int]) -> None:
        """Sets the times at which signals are sent, instead of those that were set before."""
        self._plan = sorted(steps)

    @property
    def is_ending(self) -> bool:
        """Whether signals that end the process are still to be sent."""
        return bool(self._plan)

    @property
    def next_step(self) -> float | None:
        """The time at which the next planned signal is sent."""
        return self._plan[0][0] if self._plan and self._has_remains else None

    def send_due(self, now: float) -> None:
        """Sends the planned signals whose time has come."""
        while self._plan and self._plan[0][0] <= now:
            self.signal(self._plan.pop(0)[1])

    def has_remains(self) -> bool:
        """Returns whether the group still has a process.

        The first process counts until it has been reaped. A group that was found empty is never
        signalled again, because its number may then be used again.
        """
        if self._has_remains:
            try:
                os.killpg(self.pid, 0)
            except OSError:
                self._has_remains = False
                self._guard.remove(self.pid)
        return self._has_remains
