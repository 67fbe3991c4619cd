"""The launcher: starts the tasks of a cluster, and watches over them until they have ended."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence

from condacc import _times
from condacc.launch._cluster import Place
from condacc.launch._endings import Endings
from condacc.launch._output import Output
from condacc.launch._processes import Guard
from condacc.launch._signals import Signals
from condacc.launch._silences import Silences
from condacc.launch._task import Task, how_it_ended

_LOG_LEVEL, _NOTHING = "TF_CPP_MIN_LOG_LEVEL", "3"
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORWARDED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_OTHER_SIGNALS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGCHLD)


class Launcher:
    """Runs the tasks of a cluster.

    The main thread does everything except asking servers and writing output.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        cluster: Sequence[Place],
        command: Sequence[str],
        output: Output,
    ) -> None:
        """Makes a launcher that has started nothing.

        Args:
            options: The options of the command line, by their names.
            cluster: The places of the tasks.
            command: The command of each task, before its place is filled in.
            output: What copies the output of the tasks.
        """
        self._restarts: int = options.restarts
        self._output = output
        defaults = {_LOG_LEVEL: _NOTHING} if options.hide_tensorflow_log else {}
        self._tasks = [Task(place, cluster, command, defaults) for place in cluster]
        has_coordinator = any(place.is_server and place.job == "worker" for place in cluster)
        # The variables of a lost coordinator stay in the memory of the parameter servers, and a
        # coordinator cannot continue after a parameter server. So they are started again together.
        self._inseparable = [
            task for task in self._tasks if has_coordinator and task.place.is_essential
        ]
        self._interrupted_by: int | None = None
        self._interrupted_at = 0.0
        self._paused_at: float | None = None
        self._paused_secs = 0.0
        self._signals = Signals((*_ENDING_SIGNALS, *_FORWARDED_SIGNALS, *_OTHER_SIGNALS))
        self._silences = Silences(
            options.frozen_secs, options.lost_secs, output.say, self._signals.wake
        )
        self._endings = Endings(self._tasks, options.end_secs, options.grace_secs, output.say)

    def run(self) -> int:
        """Runs the tasks to their end and returns the exit status."""
        self._guard = Guard()
        with self._signals:
            try:
                for task in self._tasks:
                    self._start(task)
                while not self._is_over():
                    self._turn()
                self._wait_for_remains()
                self._summarize()
            finally:
                for task in self._tasks:
                    self._signal(task, signal.SIGKILL)
                self._guard.close()
            self._write_rest()
        if self._interrupted_by is not None:
            return 128 + self._interrupted_by
        return max(task.status or 0 for task in self._tasks)

    def _turn(self) -> None:
        """Waits for the next event, and handles it."""
        for number in self._signals.wait(self._timeout()):
            self._on_signal(number)
        now = self._now()
        ended = [task for task in self._tasks if task.reap(now)]
        for task in ended:
            self._on_end(task)
        for task in self._tasks:
            if task.restart_at is not None and task.restart_at <= now:
                self._start(task)
        self._silences.apply()
        if self._interrupted_by is None:
            self._endings.apply(now)
        for task in self._tasks:
            if task.process is not None:
                task.process.send_due(now)
                task.process.has_remains()

    def _now(self) -> float:
        """Returns the monotonic time, without the time for which the launcher was stopped."""
        now = time.monotonic() if self._paused_at is None else self._paused_at
        return now - self._paused_secs

    def _timeout(self) -> float:
        if any(task.is_over and _is_ending(task) for task in self._tasks):
            # No signal comes when the last process of a group ends.
            return _times.current.remains_poll_secs
        times = [task.restart_at for task in self._tasks] + [self._endings.next_at]
        times += [task.process.next_step for task in self._tasks if task.process is not None]
        now = self._now()
        return min([_times.current.turn_secs, *(at - now for at in times if at is not None)])

    def _is_over(self) -> bool:
        if self._interrupted_by is not None and (
            self._now() - self._interrupted_at > _times.current.interrupted_secs
        ):
            return True
        return all(task.is_over and not _is_ending(task) for task in self._tasks)

    def _start(self, task: Task) -> None:
        again = " again" if task.status is not None else ""
        if again and not task.is_taken_along:
            again += f": restart {task.restarts + 1} of {self._restarts}"
        error = task.start(self._now(), self._guard)
        if error is not None or task.process is None:
            self._output.say(f"{task.name} cannot be started{again}: {error}.", task.name)
            self._on_end(task)
            return
        process = f"process {task.process.pid}, {task.place.address}"
        self._output.say(f"{task.name} is started{again} ({process}).", task.name)
        self._output.follow(task.name, task.process.pipes)
        self._silences.watch(task, task.process)

    def _on_end(self, task: Task) -> None:
        assert task.status is not None
        self._silences.stop(task)
        if task.process is not None and task.status != 0 and not task.process.is_ending:
            task.process.signal(signal.SIGKILL)
        self._output.drain(task.name)
        if self._interrupted_by is not None or self._endings.explains(task):
            return
        if task.status == 0:
            self._output.say(f"{task.name} has finished.", task.name)
            return
        if task.is_taken_along and not self._endings.has_begun:
            task.restart_at = self._now()
            return
        told = f"{task.name} is lost: {how_it_ended(task.status)}."
        if self._endings.has_begun:
            told += f" It is not restarted: {self._endings.reason}."
        elif task in self._inseparable and (missing := self._missing_workers()):
            told += f" It is not restarted: a coordinator cannot begin without {missing[0]}."
        elif task.restarts < self._restarts:
            delay = task.restart_later(self._now())
            number = f"{task.restarts + 1} of {self._restarts}"
            told += f" Restart {number} follows" + (f" in {delay:g} s." if delay else ".")
            told += self._take_along(task)
        else:
            told += " No restarts are left."
        self._output.say(told, task.name)

    def _missing_workers(self) -> list[str]:
        """Returns the workers of a coordinator that are lost, and are not started again."""
        return [
            task.name
            for task in self._tasks
            if task not in self._inseparable
            and task.is_lost_for_good
            and task.restarts >= self._restarts
        ]

    def _take_along(self, lost: Task) -> str:
        """Kills the tasks that must begin anew with a lost one, and returns a sentence on them."""
        others = [
            task for task in self._inseparable if task is not lost and task.restart_at is None
        ]
        if lost not in self._inseparable or not others:
            return ""
        for task in others:
            task.is_taken_along = True
            self._signal(task, signal.SIGKILL)
        return f" Started again with it: {', '.join(task.name for task in others)}."

    def _on_signal(self, number: int) -> None:
        if number in _ENDING_SIGNALS:
            self._interrupt(signal.Signals(number))
        elif number == signal.SIGTSTP:
            self._pause()
        elif number == signal.SIGCONT and self._paused_at is not None:
            self._paused_secs += time.monotonic() - self._paused_at
            self._paused_at = None
        if number in (*_FORWARDED_SIGNALS, signal.SIGCONT):
            for task in self._tasks:
                self._signal(task, number)

    def _pause(self) -> None:
        """Stops the tasks and the launcher. A task has no terminal, and would ignore SIGTSTP."""
        for task in self._tasks:
            self._signal(task, signal.SIGSTOP)
        if self._paused_at is None:
            self._paused_at = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _interrupt(self, number: signal.Signals) -> None:
        now = self._now()
        is_first = self._interrupted_by is None
        if not is_first and now - self._interrupted_at < _times.current.same_key_secs:
            return
        steps = _ending_steps(number) if is_first else [(0.0, signal.SIGKILL)]
        if is_first:
            self._interrupted_by, self._interrupted_at = number, now
        self._output.say(f"{number.name}: all tasks are {'told to end' if is_first else 'killed'}.")
        for task in self._tasks:
            task.restart_at = None
            if task.process is not None and task.process.has_remains():
                task.process.plan(*((now + delay, step) for delay, step in steps))
                task.process.send_due(now)

    def _signal(self, task: Task, number: int) -> None:
        if task.process is not None:
            task.process.signal(number)

    def _wait_for_remains(self) -> None:
        """Gives processes that tasks have left behind some time to end by themselves."""
        end = time.monotonic() + _times.current.remains_secs
        while time.monotonic() < end and self._interrupted_by is None:
            if not any(task.process and task.process.has_remains() for task in self._tasks):
                return
            for number in self._signals.wait(_times.current.remains_poll_secs):
                self._on_signal(number)

    def _summarize(self) -> None:
        for task in self._tasks:
            status = "not ended" if task.status is None else how_it_ended(task.status)
            restarts = f"{task.restarts} restart{'' if task.restarts == 1 else 's'}"
            told = f"{task.name}: {status}{task.note}, {restarts}, {task.run_secs:.1f} s"
            self._output.say(told)

    def _write_rest(self) -> None:
        """Waits until the output is written. A signal ends the wait."""
        self._output.finish()
        end = time.monotonic() + _times.current.rest_secs
        while not self._output.join(0.05):
            if self._interrupted_by is not None and time.monotonic() > end:
                return
            for number in self._signals.wait(0.0):
                if number in _ENDING_SIGNALS:
                    self._interrupted_by = self._interrupted_by or number


def _ending_steps(number: signal.Signals) -> list[tuple[float, signal.Signals]]:
    """Returns what tasks are sent after an ending signal, and how many seconds after it."""
    times = _times.current
    steps = [(0.0, signal.SIGTERM), (times.kill_secs, signal.SIGKILL)]
    if number == signal.SIGINT:
        steps[:1] = [(0.0, signal.SIGINT), (times.terminate_secs, signal.SIGTERM)]
    return steps


def _is_ending(task: Task) -> bool:
    """Returns whether processes of a task are left, and still have time to end by themselves."""
    return task.process is not None and task.process.is_ending and task.process.has_remains()
