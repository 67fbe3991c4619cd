"""A task of a cluster over all its restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from condacc import _times
from condacc.launch._cluster import Place, filled, tf_config
from condacc.launch._processes import Guard, TaskProcess
from condacc.tf_config import LAUNCHED

_CANNOT_START = 126


class Task:
    """A task: its process, how many times it was restarted, and its status.

    Attributes:
        place: The place of the task in the cluster.
        process: The process that was started last. None before the first start.
        restarts: How many times the task was started again.
        status: Exit status of the last process; 128 + number if a signal has ended it. None if it
            has not ended.
        restart_at: The time at which a lost task is started again. None if it is not.
        is_taken_along: Whether the launcher ends the process because another task is lost, and then
            starts it again. This does not count as a restart.
        note: A remark about the end, for the summary.
        run_secs: The time for which processes of this task have run, in seconds.
    """

    def __init__(
        self,
        place: Place,
        cluster: Sequence[Place],
        command: Sequence[str],
        defaults: Mapping[str, str],
    ) -> None:
        """Makes a task that has not been started.

        Args:
            place: The place of the task in the cluster.
            cluster: The places of all tasks.
            command: The command that the task runs, before its place is filled in.
            defaults: Environment variables that are set unless the launcher has inherited them.
        """
        self.place = place
        self.name = str(place)
        self.process: TaskProcess | None = None
        self.restarts = 0
        self.status: int | None = None
        self.restart_at: float | None = None
        self.is_taken_along = False
        self.note = ""
        own = {"TF_CONFIG": tf_config(cluster, place), LAUNCHED: "1", "PYTHONUNBUFFERED": "1"}
        self._environment = {**defaults, **os.environ, **own}
        self._command = filled(command, cluster, place)
        self._started_at = 0.0
        self.run_secs = 0.0
        self._quick_losses = 0

    @property
    def is_running(self) -> bool:
        """Whether the task has a process that has not ended."""
        return self.process is not None and self.status is None

    @property
    def is_over(self) -> bool:
        """Whether the task has ended and will not be started again."""
        return self.status is not None and self.restart_at is None

    @property
    def is_lost_for_good(self) -> bool:
        """Whether the task has ended with an error and will not be started again."""
        return self.is_over and self.status != 0

    def start(self, now: float, guard: Guard) -> str | None:
        """Starts a process for the task. Returns why if that is impossible."""
        if self.status is not None and not self.is_taken_along:
            self.restarts += 1
        self.is_taken_along = False
        self.status = self.restart_at = None
        self._started_at = now
        try:
            self.process = TaskProcess(self._command, self._environment, guard)
        except OSError as error:
            self.status = _CANNOT_START
            return str(error)
        return None

    def reap(self, now: float) -> bool:
        """Returns whether the process has ended since the last call."""
        if self.process is None or self.status is not None:
            return False
        self.status = self.process.poll()
        if self.status is None:
            return False
        self.run_secs += now - self._started_at
        return True

    def restart_later(self, now: float) -> float:
        """Plans a restart of a lost task, and returns the delay in seconds.

        There is no delay unless the task died at once. Then it grows with each loss in a row.
        """
        is_quick = now - self._started_at < _times.current.quick_secs
        self._quick_losses = self._quick_losses + 1 if is_quick else 0
        exponent = min(self._quick_losses, 10) - 1
        delay = min(2.0**exponent, _times.current.max_delay_secs) if is_quick else 0.0
        self.restart_at = now + delay
        return delay


def how_it_ended(status: int) -> str:
    """Describes an exit status: "SIGKILL (status 137)" or "status 3"."""
    try:
        return f"{signal.Signals(status - 128).name} (status {status})"
    except ValueError:
        return f"status {status}"
