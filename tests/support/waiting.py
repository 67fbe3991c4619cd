"""How tests wait: for a condition, with one patience for all of them.

A test asserts what must hold in any case: bits, counts, statuses, texts. What must happen at some
time is waited for with `until`, which returns as soon as the condition holds. Its limit is so long
that a busy machine cannot reach it. Seconds may be printed, and are never compared. This is the
only file of the tests with a clock, beside the benchmarks and the soak.
"""

from __future__ import annotations

import io
import os
import select
import shlex
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Value = TypeVar("Value")

PATIENCE_SECS = 600.0
LIMIT_SECS = 900.0  # The limit of a whole test, for what hangs in native code.

SEED_VARIABLE = "TF_CONDACC_TEST_SEED"
_NUM_LAST_LINES = 40

# Functions that return what processes of the running test have written, by their names. Errors of
# waits show the last lines.
shown_logs: list[Callable[[], Mapping[str, str]]] = []
_waits: dict[int, tuple[str, float]] = {}  # What each thread waits for, and since when.


def until(
    condition: Callable[[], Value],
    what: str,
    about: Callable[[], str] | None = None,
    pause_secs: float = 0.002,
) -> Value:
    """Calls `condition` until it returns something true, and returns that.

    Args:
        condition: It may raise an error itself if it can never hold any more.
        what: What is waited for, as a sentence part: "the take waits".
        about: Returns more about the state for the error.
        pause_secs: Pause between two calls.

    Raises:
        AssertionError: It did not hold within the patience. The text explains the failure.
    """

    def poll(secs: float) -> Value:
        end = time.monotonic() + secs
        while not (value := condition()) and time.monotonic() <= end:
            time.sleep(pause_secs)
        return value

    return _wait(poll, what, about)


def until_set(event: threading.Event, what: str) -> None:
    """Waits for an event like `until`, and without polling."""
    _wait(event.wait, what)


def until_readable(descriptor: int, what: str) -> None:
    """Waits for data of a pipe or for the end of a process like `until`, and without polling."""
    _wait(lambda secs: select.select([descriptor], [], [], secs)[0], what)


def _wait(
    wait: Callable[[float], Value], what: str, about: Callable[[], str] | None = None
) -> Value:
    with _noted(what):
        value = wait(PATIENCE_SECS)
        if not value:
            raise AssertionError(explained(f"{about()}\n" if about else ""))
    return value


def run_program(arguments: Sequence[Any], **options: Any) -> subprocess.CompletedProcess:
    """Calls `subprocess.run` with the patience as its limit. Output is captured as text."""
    options = {"capture_output": True, "text": True, **options}
    with _noted(f"the end of {arguments}"):
        try:
            return subprocess.run(arguments, timeout=PATIENCE_SECS, **options)
        except subprocess.TimeoutExpired as expired:
            output = b"".join(part for part in (expired.stdout, expired.stderr) if part)
            shown = _last_lines("the program", output.decode(errors="replace"))
            raise AssertionError(explained(shown)) from None


def work(secs: float) -> None:
    """Spends time, to simulate work. No verdict of a test may depend on how long it takes."""
    time.sleep(secs)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long the block took. Nothing is compared."""
    begin = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begin:.2f} s")


def explained(about: str = "") -> str:
    """Returns what this thread waits for, how the test is run alone, logs, and all stacks."""
    out = io.StringIO()
    ident = threading.get_ident()
    if ident in _waits:
        out.write(f"waited {_secs(ident)} until: {_waits[ident][0]}\n")
    if test := os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]:
        seed = os.environ.get(SEED_VARIABLE)
        command = f"{SEED_VARIABLE}={seed} " if seed else ""
        out.write(f"alone: {command}{sys.executable} -m pytest -m '' {shlex.quote(test)}\n{about}")
    for logs in shown_logs:
        out.writelines(_last_lines(name, text) for name, text in logs().items())
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        waits = f", waits {_secs(ident)} until: {_waits[ident][0]}" if ident in _waits else ""
        out.write(f"--- thread {names.get(ident, ident)}{waits}\n")
        traceback.print_stack(frame, limit=12, file=out)
    return out.getvalue()


def _secs(thread: int) -> str:
    return f"{time.monotonic() - _waits[thread][1]:.1f} s"


def _last_lines(process: str, text: str) -> str:
    return "\n".join([f"--- {process}", *text.splitlines()[-_NUM_LAST_LINES:], ""])


def _other_threads_sleep() -> bool:
    for task in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # The thread has ended.
            with open(f"/proc/self/task/{task}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split(maxsplit=1)[0]
            if state != b"S" and task != str(threading.get_native_id()):
                return False
    return True


@contextmanager
def _noted(what: str) -> Iterator[None]:
    ident = threading.get_ident()
    outer = _waits.get(ident)
    _waits[ident] = what, time.monotonic()
    try:
        yield
    finally:
        if outer is None:
            del _waits[ident]
        else:
            _waits[ident] = outer


class Background:
    """A call that runs in a daemon thread of its own."""

    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        self._call = (call, args)
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        call, args = self._call
        try:
            self._value = call(*args)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def failed(self) -> bool:
        return self.done and self._error is not None

    def result(self) -> Any:
        """Returns what the call returned or raises what it raised."""
        until_set(self._done, f"{self._call[0]} ends in the background")
        if self._error is not None:
            raise self._error
        return self._value

    def error(self) -> BaseException | None:
        """Returns the exception that the call raised, or None if it returned."""
        until_set(self._done, f"{self._call[0]} ends in the background")
        return self._error

    def wait_until_blocked(self) -> None:
        """Waits until all other threads of the process have slept at several looks.

        Then the call waits for what no thread works on. A thread that lacks nothing but a processor
        does not sleep. The looks need not follow each other: some threads wake up regularly.
        """
        num_quiet = 0

        def is_quiet() -> bool:
            nonlocal num_quiet
            assert not self.done, f"the background call ended: {self._error or self._value}"
            num_quiet += _other_threads_sleep()
            return num_quiet >= 5

        until(is_quiet, f"{self._call[0]} waits in the background", pause_secs=0.005)


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Runs the calls at the same time, and returns their results."""
    start = threading.Barrier(len(calls))

    def begin(call: Callable[[], Any]) -> Any:
        start.wait(PATIENCE_SECS)
        return call()

    running = [Background(begin, call) for call in calls]
    # If one fails, its error is raised at once: the others may wait for it.
    until(
        lambda: all(run.done for run in running) or [run for run in running if run.failed],
        f"the end of {calls}",
    )
    for run in running:
        if run.failed:
            run.result()
    return [run.result() for run in running]
