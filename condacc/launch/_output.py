"""Copies what all tasks write to the standard output and to files."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import re
import select
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO

from condacc.launch._lines import LineSplitter

_READ_BYTES = 1 << 16
_MAX_PIPE_BYTES = 1 << 20  # The largest pipe of an unprivileged process, by the kernel's default.
_COLOURS = (36, 33, 32, 35, 34, 31)
_RESET = b"\x1b[0m"
# Control sequences of terminals, other than those that only change colours.
_CURSOR_MOVE = re.compile(
    rb"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[78DEHMc]"
)


class _Sink:
    """Writes to a file descriptor until there is an error, and ignores what comes after it.

    Attributes:
        name: The name of the file, for messages.
    """

    def __init__(self, name: str, descriptor: int | None, *, owned: bool = False) -> None:
        """Makes a sink.

        Args:
            name: The name of the file.
            descriptor: The file descriptor; None if there is nothing to write to.
            owned: Whether `close` closes the descriptor.
        """
        self.name = name
        self._descriptor = descriptor
        self._owned = owned

    @classmethod
    def create(cls, path: str) -> _Sink:
        """Makes a sink for a file, which is created or emptied. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        return cls(path, os.open(path, flags, 0o666), owned=True)

    def write(self, data: bytes) -> OSError | None:
        """Writes all of the data. Returns the error if it is the first one of this sink."""
        view = memoryview(data)
        while view and self._descriptor is not None:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # Someone else has made a shared terminal non-blocking.
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.close()
                return error
        return None

    def close(self) -> None:
        """Closes the sink."""
        if self._owned and self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


@dataclass(eq=False)
class _Stream:
    """One stream of a task: its standard output or its standard error."""

    task: str
    pipe: IO[bytes]
    splitter: LineSplitter = field(default_factory=LineSplitter)


class Output:
    """A thread that writes the lines of all tasks, and the messages of the launcher.

    A line of a task goes to the standard output, after the task's name, and to the task's file. A
    message goes to the standard error and to launch.log. If nobody reads the standard output, the
    thread waits, and so do tasks that write much, but not the launcher.

    The methods only tell the thread what to do, in the order of the calls.
    """

    def __init__(self, directory: str, tasks: Iterable[str]) -> None:
        """Makes the directory and empty files in it. Raises OSError."""
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        stdout, stderr = sys.stdout, sys.stderr  # None if they are closed.
        is_coloured = stdout is not None and stdout.isatty() and not os.environ.get("NO_COLOR")
        self._stdout = _Sink("the standard output", stdout.fileno() if stdout else None)
        self._stderr = _Sink("the standard error", stderr.fileno() if stderr else None)
        self._log = _Sink.create(os.path.join(directory, "launch.log"))
        self._logs: dict[str, _Sink] = {}
        self._prefixes: dict[str, bytes] = {}
        for number, task in enumerate(tasks):
            path = os.path.join(directory, f"{task.replace(' ', '-')}.log")
            self._logs[task] = _Sink.create(path)
            colour = _COLOURS[number % len(_COLOURS)]
            prefix = f"\x1b[{colour}m[{task}]\x1b[0m " if is_coloured else f"[{task}] "
            self._prefixes[task] = prefix.encode()
        self._selector = selectors.DefaultSelector()
        self._wake_source, self._wake_target = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_source, selectors.EVENT_READ)
        self._streams: list[_Stream] = []
        self._orders: collections.deque[Callable[[], None]] = collections.deque()
        self._finished = False
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def follow(self, task: str, pipes: Iterable[IO[bytes]]) -> None:
        """Copies the lines of these pipes, and closes each at its end."""
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
            self._order(functools.partial(self._open, _Stream(task, pipe)))

    def drain(self, task: str) -> None:
        """Copies what a task has written so far, before messages that come later."""
        self._order(functools.partial(self._drain, task))

    def say(self, message: str, task: str | None = None) -> None:
        """Writes a message of the launcher, also to the file of a task if it concerns one.

        The time of the call stands before the message.
        """
        self._order(functools.partial(self._say, f"{_now()} {message}", task))

    def finish(self) -> None:
        """Copies what is left, and ends the thread."""
        self._order(self._finish)

    def join(self, timeout_secs: float) -> bool:
        """Waits for the thread's end, and returns whether it has ended."""
        self._thread.join(timeout_secs)
        return not self._thread.is_alive()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        # The thread may have carried out the order already, and ended if that was the last one.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._wake_target, b"\0")

    def _run(self) -> None:
        while not self._finished:
            for key, _ in self._selector.select(self._timeout()):
                if key.fd != self._wake_source:
                    self._read(key.data)
                    continue
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_source, _READ_BYTES)
            while self._orders:
                self._orders.popleft()()
            now = time.monotonic()
            for stream in self._streams:
                self._write(stream.task, stream.splitter.states(now))
        self._selector.close()
        os.close(self._wake_source)

    def _timeout(self) -> float | None:
        """Returns the time until the state of a progress bar is due."""
        times = [stream.splitter.due for stream in self._streams]
        due = [time for time in times if time is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _open(self, stream: _Stream) -> None:
        self._streams.append(stream)
        self._selector.register(stream.pipe, selectors.EVENT_READ, stream)

    def _read(self, stream: _Stream) -> bool:
        """Copies what a stream has to read now, and returns whether there was anything."""
        try:
            data = os.read(stream.pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._write(stream.task, stream.splitter.feed(data, time.monotonic()))
        else:
            self._close(stream)
        return bool(data)

    def _drain(self, task: str) -> None:
        for stream in [each for each in self._streams if each.task == task]:
            self._read_all(stream)
            self._write(task, stream.splitter.close())

    def _read_all(self, stream: _Stream) -> None:
        """Copies what an ended task wrote, even if a process that it left behind still writes."""
        for _ in range(_MAX_PIPE_BYTES // _READ_BYTES):
            if not self._read(stream):
                return

    def _close(self, stream: _Stream) -> None:
        self._write(stream.task, stream.splitter.close())
        self._selector.unregister(stream.pipe)
        self._streams.remove(stream)
        stream.pipe.close()

    def _finish(self) -> None:
        for stream in list(self._streams):
            self._read_all(stream)
        for stream in list(self._streams):
            self._close(stream)
        for sink in (self._log, *self._logs.values()):
            sink.close()
        self._finished = True

    def _say(self, message: str, task: str | None) -> None:
        line = f"[launch] {message}\n".encode(errors="backslashreplace")
        sinks = [self._log, self._stderr]
        if task is not None:
            sinks.append(self._logs[task])
        for sink in sinks:
            self._write_to(sink, line)

    def _write(self, task: str, lines: list[bytes]) -> None:
        if not lines:
            return
        texts = [_printable(line) for line in lines]
        prefix = self._prefixes[task]
        self._write_to(self._logs[task], b"".join(text + b"\n" for text in texts))
        self._write_to(self._stdout, b"".join(prefix + text + b"\n" for text in texts))

    def _write_to(self, sink: _Sink, data: bytes) -> None:
        error = sink.write(data)
        if error is not None:
            told = f"{sink.name} cannot be written to: {error.strerror}. The training continues"
            self._say(f"{_now()} {told}; the output is in {self._directory}.", None)


def _now() -> str:
    return time.strftime("%H:%M:%S")


def _printable(line: bytes) -> bytes:
    """Returns a line as text that leaves the cursor and the colour of a terminal alone."""
    text = line.decode(errors="backslashreplace").encode()
    if b"\x1b" in text:
        text = _CURSOR_MOVE.sub(b"", text) + _RESET
    return text
