"""Notices tasks that are frozen."""

from __future__ import annotations

import collections
import signal
from collections.abc import Callable

from condacc.launch._processes import TaskProcess
from condacc.launch._task import Task
from condacc.liveness import Watch


class Silences:
    """Watches the servers of running tasks, reports those that are silent, and kills them."""

    def __init__(
        self,
        frozen_secs: float,
        lost_secs: float,
        say: Callable[[str, str | None], None],
        wake: Callable[[], None],
    ) -> None:
        """Makes an object that watches nothing yet.

        Args:
            frozen_secs: Silence after which a task is reported; 0 for never.
            lost_secs: Silence after which a task is killed; 0 for never.
            say: Writes a message, also to the log of the task if its name is given.
            wake: Called by a thread if there is something for `apply`.
        """
        self._lost_secs = lost_secs
        self._limits = sorted({limit for limit in (frozen_secs, lost_secs) if limit > 0})
        self._say = say
        self._wake = wake
        self._watches: dict[str, Watch] = {}
        self._events: collections.deque[tuple[Task, TaskProcess, float | None]] = (
            collections.deque()
        )

    def watch(self, task: Task, process: TaskProcess) -> None:
        """Starts to watch the server of a process that has been started for a task."""
        if not self._limits:
            return
        watch = Watch(
            {task.name: task.place.address},
            self._limits,
            on_silent=lambda name, seconds, answer: self._note(task, process, seconds),
            on_answer=lambda name: self._note(task, process, None),
        )
        self._watches[task.name] = watch
        watch.start()

    def stop(self, task: Task) -> None:
        """Ends the watch of a task that has ended."""
        if task.name in self._watches:
            self._watches.pop(task.name).stop()

    def apply(self) -> None:
        """Reports and kills. Only the main thread calls this."""
        while self._events:
            task, process, seconds = self._events.popleft()
            if task.process is not process or not task.is_running:
                continue
            silent = f"{task.name} has not answered for {seconds:g} s" if seconds else ""
            if seconds is None:
                self._say(f"{task.name} answers again.", None)
            elif seconds == self._lost_secs:
                self._say(f"{silent} and is killed.", task.name)
                process.signal(signal.SIGKILL)
            else:
                self._say(f"{silent}. Its process may be frozen.", None)

    def _note(self, task: Task, process: TaskProcess, seconds: float | None) -> None:
        self._events.append((task, process, seconds))
        self._wake()
