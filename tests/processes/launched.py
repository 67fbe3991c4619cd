"""The launcher as a process, with small programs as its tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from condacc.liveness import Answer
from tests.support.times import LAUNCHER
from tests.support.waiting import PATIENCE_SECS, shown_logs, until_readable

_TIME = re.compile(r"^\[launch\] \d\d:\d\d:\d\d ", re.MULTILINE)
# A task begins with this.
_PRELUDE = """
import json, os, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
def once(name):
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False
def wait():
    while True:
        signal.pause()
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""


def task_command(code: str) -> list[str]:
    """Returns the command of tasks that run this code, in which `job` and `index` are known."""
    return [sys.executable, "-S", "-c", _PRELUDE + code]


def launch_arguments(*arguments: str, **times: float) -> list[str]:
    """Returns arguments of Python that run `condacc launch` with patience.

    Args:
        *arguments: Options, which may make the launcher less patient, and the command.
        **times: Fields of `condacc._times.Times` that are not the patient ones.
    """
    secs = str(PATIENCE_SECS)
    patient = ["--end-secs", secs, "--grace-secs", secs, "--frozen-secs", "0", "--lost-secs", "0"]
    replaced = json.dumps({**LAUNCHER, **times})
    return ["-m", "tests.processes.launcher", replaced, *patient, *arguments]


def _ignore_only(ignored: int | None) -> None:
    """Makes a process that is about to be started ignore one signal, whatever this one ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)


class Launched:
    """A launcher that runs, and what it and its tasks have written so far, without times."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], ignored: int | None, stand_ins: dict[str, str]
    ) -> None:
        self.output = ""
        self.logs = folder / "launch_logs"
        self._folder = folder
        for name, value in stand_ins.items():
            self._set(name, value)
        search = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": search},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: _ignore_only(ignored),
        )
        shown_logs.append(self._texts)

    def set_clock(self, secs: float) -> None:
        self._set("clock", str(secs))

    def set_answer(self, answer: Answer) -> None:
        self._set("answer", answer.value)

    def until(self, pattern: str, count: int = 1) -> list[str]:
        """Reads to the given number of matches of a regular expression, and returns them."""
        while len(found := re.findall(pattern, self.output, re.MULTILINE)) < count:
            if not self._read():
                raise AssertionError(f"{pattern!r} not {count} times in:\n{self.output}")
        return found

    def end(self) -> int:
        """Reads to the end, and returns the exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECS)

    def processes(self) -> dict[str, int]:
        """Returns the identifier of the process of each task, by its name."""
        started = r"\[launch\] (\w+ \d+) is started.* \(process (\d+),"
        return {name: int(pid) for name, pid in re.findall(started, self.output)}

    def log(self, name: str) -> list[str]:
        """Returns the lines of a file of the log."""
        return _without_times((self.logs / f"{name}.log").read_text()).splitlines()

    def close(self) -> None:
        """Ends what is left of a test that has failed."""
        shown_logs.remove(self._texts)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _set(self, name: str, value: str) -> None:
        written = self._folder / f"{name}.new"
        written.write_text(value)
        written.replace(self._folder / name)

    def _read(self) -> bool:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        until_readable(descriptor, "the launcher or a task writes more")
        data = os.read(descriptor, 1 << 16)
        self.output = _without_times(self.output + data.decode())
        return bool(data)

    def _texts(self) -> dict[str, str]:
        return {"launcher and tasks": self.output}


def _without_times(text: str) -> str:
    """Removes the times of the launcher's messages."""
    return _TIME.sub("[launch] ", text)


def launchers(folder: Path) -> Iterator:
    """Makes a function that launches; what it has started ends with the test.

    Its arguments are the code or the command of the tasks, options of the launcher, a signal that
    the launcher ignores, whether its clock stands still at 0 until the test sets it, whether the
    servers of tasks answer as the test says, and times that are not the patient ones.
    """
    started: list[Launched] = []

    def launch(
        code: str | Sequence[str],
        *options: str,
        ignored: int | None = None,
        sets_clock: bool = False,
        sets_answer: bool = False,
        **times: float,
    ) -> Launched:
        stand_ins = {"clock": "0"} if sets_clock else {}
        if sets_clock:
            times["turn_secs"] = 0.02  # It looks at the clock this often.
        if sets_answer:
            stand_ins["answer"] = Answer.ANSWERED.value
        command = task_command(code) if isinstance(code, str) else code
        arguments = launch_arguments(*options, "--", *command, **times)
        started.append(Launched(folder, arguments, ignored, stand_ins))
        return started[-1]

    yield launch
    for one in started:
        one.close()


def wait_until_gone(pid: int) -> None:
    """Waits until a process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        until_readable(descriptor, f"process {pid} has ended")
    finally:
        os.close(descriptor)


def is_stopped(pid: int) -> bool:
    """Returns whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
