"""The launcher as a process, with small programs as its tasks."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_LIMIT_SECS = 20.0
# A task begins with this. `serve` answers HTTP/2 clients with an empty frame of settings, and says
# so the first time.
_PRELUDE = """
import json, os, signal, socket, sys, threading, time
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
def serve():
    host, port = config["cluster"][job][index].split(":")
    server = socket.create_server((host, int(port)))
    def answer(first=True):
        while True:
            client, _ = server.accept()
            client.sendall(b"\\0\\0\\0\\4\\0\\0\\0\\0\\0")
            client.close()
            if first: print("answered")
            first = False
    threading.Thread(target=answer, daemon=True).start()
def once(name):
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False
def wait():
    while True:
        signal.pause()
"""


def task_command(code: str) -> list[str]:
    """Returns the command of tasks that run this code, in which `job` and `index` are known."""
    return [sys.executable, "-S", "-c", _PRELUDE + code]


def _ignore_only(ignored: int | None) -> None:
    """Makes a process that is about to be started ignore one signal, whatever this one ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)


class Launched:
    """A launcher that runs, and what it and its tasks have written so far."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        command: Sequence[str],
        ignored: int | None = None,
    ) -> None:
        self.output = ""
        self.logs = folder / "launch_logs"
        search = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "condacc", "launch", *options, "--", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": search},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: _ignore_only(ignored),
        )

    def until(self, pattern: str, count: int = 1) -> list[str]:
        """Reads to the given number of matches of a regular expression, and returns them."""
        deadline = time.monotonic() + _LIMIT_SECS
        while len(found := re.findall(pattern, self.output, re.MULTILINE)) < count:
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} not {count} times in:\n{self.output}")
        return found

    def end(self) -> int:
        """Reads to the end, and returns the exit status."""
        deadline = time.monotonic() + _LIMIT_SECS
        while self._read(deadline):
            pass
        return self.process.wait(_LIMIT_SECS)

    def processes(self) -> dict[str, int]:
        """Returns the identifier of the process of each task, by its name."""
        started = r"\[launch\] (\w+ \d+) is started.* \(process (\d+),"
        return {name: int(pid) for name, pid in re.findall(started, self.output)}

    def log(self, name: str) -> list[str]:
        """Returns the lines of a file of the log."""
        return (self.logs / f"{name}.log").read_text().splitlines()

    def close(self) -> None:
        """Ends what is left of a test that has failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self, deadline: float) -> bool:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"nothing more came after:\n{self.output}")
        data = os.read(descriptor, 1 << 16)
        self.output += data.decode()
        return bool(data)


def launchers(folder: Path) -> Iterator:
    """Makes a function `launch(code, *options)`; what it has started ends with the test."""
    started: list[Launched] = []

    def launch(code: str | Sequence[str], *options: str, ignored: int | None = None) -> Launched:
        command = task_command(code) if isinstance(code, str) else code
        started.append(Launched(folder, options, command, ignored))
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
        assert select.select([descriptor], [], [], _LIMIT_SECS)[0], f"process {pid} goes on"
    finally:
        os.close(descriptor)


def is_stopped(pid: int) -> bool:
    """Returns whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def wait_until(condition, what: str) -> None:
    """Waits until a condition that nothing announces holds."""
    deadline = time.monotonic() + _LIMIT_SECS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
