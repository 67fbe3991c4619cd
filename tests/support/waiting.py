"""How tests wait: for a condition, with one patience for all of them.

A test asserts what must hold in any case: bits, counts, statuses, texts. What must happen at some
time is waited for with `until`, which returns as soon as the condition holds. Its limit is so long
that a busy machine cannot reach it. Seconds may be printed, and are never compared. This is the
only file of the tests with a clock, beside the benchmarks and the soak.
"""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

PATIENCE_SECS = 600.0
LIMIT_SECS = 900.0  # The limit of a whole test, for what hangs in native code.

_waits: dict[int, str] = {}  # What each thread waits for, for the report of a test at its limit.


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
        about: Returns more about the state for the error, such as logs of processes.
        pause_secs: Pause between two calls.

    Raises:
        AssertionError: It did not hold within the patience. The text has the stacks of all threads.
    """
    end = time.monotonic() + PATIENCE_SECS
    with _noted(what):
        while not (value := condition()):
            if time.monotonic() > end:
                more = f"\n{about()}" if about else ""
                raise AssertionError(
                    f"waited {PATIENCE_SECS:.0f} s until: {what}{more}\n{stacks()}"
                )
            time.sleep(pause_secs)
    return value


def until_set(event: threading.Event, what: str) -> None:
    """Waits for an event like `until`, and without polling."""
    with _noted(what):
        if not event.wait(PATIENCE_SECS):
            raise AssertionError(f"waited {PATIENCE_SECS:.0f} s until: {what}\n{stacks()}")


def run_program(arguments: Sequence[Any], **options: Any) -> subprocess.CompletedProcess:
    """Calls `subprocess.run` with the patience as its limit. Output is captured as text."""
    options = {"capture_output": True, "text": True, **options}
    with _noted(f"the end of {arguments}"):
        return subprocess.run(arguments, timeout=PATIENCE_SECS, **options)


def work(secs: float) -> None:
    """Spends time, to simulate work. No verdict of a test may depend on how long it takes."""
    time.sleep(secs)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long the block took. Nothing is compared."""
    begin = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begin:.2f} s")


def stacks() -> str:
    """Returns the stacks of all threads, and what they wait for."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    out = io.StringIO()
    for ident, frame in sys._current_frames().items():
        waits = f", waits until: {_waits[ident]}" if ident in _waits else ""
        out.write(f"--- thread {names.get(ident, ident)}{waits}\n")
        traceback.print_stack(frame, limit=12, file=out)
    return out.getvalue()


@contextmanager
def _noted(what: str) -> Iterator[None]:
    ident = threading.get_ident()
    outer = _waits.get(ident)
    _waits[ident] = what
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
        """Waits until the thread has slept, without using CPU time, during many polls in a row."""
        stat = Path(f"/proc/self/task/{self._thread.native_id}/stat")
        quiet, last = 0, ""

        def is_quiet() -> bool:
            nonlocal quiet, last
            assert not self.done, f"the background call ended: {self._error or self._value}"
            fields = stat.read_text().rpartition(")")[2].split()
            state, cpu_time = fields[0], " ".join(fields[11:13])
            quiet = quiet + 1 if state == "S" and cpu_time == last else 0
            last = cpu_time
            return quiet >= 30

        until(is_quiet, f"{self._call[0]} waits in the background")


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Runs the calls at the same time, and returns their results."""
    start = threading.Barrier(len(calls))

    def begin(call: Callable[[], Any]) -> Any:
        start.wait(PATIENCE_SECS)
        return call()

    running = [Background(begin, call) for call in calls]
    return [run.result() for run in running]
