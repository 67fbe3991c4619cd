"""When a run ends, and which tasks are ended by the launcher."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence

from condacc import _times
from condacc.launch._task import Task

_TERMINATED = 128 + signal.SIGTERM


class Endings:
    """Ends tasks that do not end by themselves although the training is over.

    The run is over when all workers, or the coordinator, have ended; then the servers are ended.
    When the chief has finished, or the chief or a parameter server is lost for good, no task is
    started again, and the others are ended after a time of grace.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        end_secs: float,
        grace_secs: float,
        say: Callable[[str], None],
    ) -> None:
        self._tasks = tasks
        self._servers = [task for task in tasks if task.place.is_server]
        self._workers = [task for task in tasks if not task.place.is_server]
        self._end_secs = end_secs
        self._grace_secs = grace_secs
        self._say = say
        self._stop_reason = ""  # Why nothing is started again.
        self._is_loss = False  # Whether the reason is a loss.
        self._grace_ends: float | None = None
        self._servers_end: float | None = None
        self._ended: set[Task] = set()  # The tasks that this object has ended.

    @property
    def has_begun(self) -> bool:
        """Whether the training is over, so that no task is started again."""
        return bool(self._stop_reason) or self._workers[0].status == 0

    @property
    def reason(self) -> str:
        """Why no task is started again."""
        return self._stop_reason or f"{self._workers[0].name}, the chief, has finished"

    @property
    def next_at(self) -> float | None:
        """The time at which `apply` has something to do if no task ends before."""
        times = [at for at in (self._grace_ends, self._servers_end) if at is not None]
        return min(times, default=None)

    def apply(self, now: float) -> None:
        """Plans the ends of tasks that have had their time."""
        if not self._stop_reason:
            self._find_reason()
            if self._stop_reason:
                self._grace_ends = now + self._grace_secs
                self._cancel_restarts()
        if self._grace_ends is not None and now >= self._grace_ends:
            self._grace_ends = None
            self._end_late(now)
        if all(task.is_over for task in self._workers):
            self._end_servers(now)

    def explains(self, task: Task) -> bool:
        """If this object has told the task to end, sets its final status and returns True."""
        if task not in self._ended:
            return False
        task.note = " (ended by the launcher)"
        if task.place.is_server:
            task.status = 0
        elif task.status == 0:
            task.status = _TERMINATED
        return True

    def _cancel_restarts(self) -> None:
        for task in self._tasks:
            if task.restart_at is not None:
                task.restart_at = None
                self._say(f"{task.name} is not restarted: {self._stop_reason}.")

    def _find_reason(self) -> None:
        chief = self._workers[0]
        lost = [task for task in self._tasks if task.place.is_essential and task.is_lost_for_good]
        finished = [task for task in self._servers if task.is_over and task.status == 0]
        if chief.is_over and chief.status == 0:
            self._stop_reason = f"{chief.name}, the chief, has finished"
        elif finished:
            self._stop_reason = f"{finished[0].name}, a server, has finished"
        elif lost:
            self._stop_reason = f"{lost[0].name} is lost, and no worker can continue without it"
            self._is_loss = True
            if any(task.is_running for task in self._workers):
                told = f"The other tasks have {self._grace_secs:g} s to end by themselves"
                self._say(f"{self._stop_reason[0].upper()}{self._stop_reason[1:]}. {told}.")

    def _end_late(self, now: float) -> None:
        late = [task for task in self._workers if task.is_running]
        if self._is_loss:
            late += [task for task in self._servers if task.is_running]
        for task in late:
            self._say(
                f"{task.name} has not ended by itself within {self._grace_secs:g} s "
                f"({self._stop_reason}), and is ended."
            )
        self._end(late, now)

    def _end_servers(self, now: float) -> None:
        if self._servers_end is None:
            self._servers_end = now + self._end_secs
        if now >= self._servers_end:
            self._servers_end = float("inf")
            self._end((task for task in self._servers if task.is_running), now)

    def _end(self, tasks: Iterable[Task], now: float) -> None:
        kill_at = now + _times.current.kill_ended_secs
        for task in tasks:
            if task.process is not None and task not in self._ended:
                self._ended.add(task)
                task.process.plan((now, signal.SIGTERM), (kill_at, signal.SIGKILL))
