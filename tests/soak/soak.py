"""Uses accumulators from sixteen threads for minutes, and accounts for every gradient.

usage: python -m tests.soak.soak [MINUTES]

Threads apply, take, wait, change steps, reset and make accumulators, eagerly, in functions and in
sessions that are closed while a take waits. Each gradient is [1, number]: so sums tell how many
gradients they have, and which. At the end, what was accepted is what was taken, discarded or left.
Then no memory is held any more, and there are no more threads and file descriptors than before.
The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.memory import memory

tf.get_logger().setLevel("ERROR")

v1 = tf.compat.v1

ROWS = 16  # Rows of a sparse gradient's shape.
ALWAYS = 1 << 62  # A local step that is never stale.
_WAIT_SECS = 0.02  # How long a take waits before it is cancelled.
_END_SECS = 300.0  # How long threads and memory may take to go away, on a busy machine.


class Alarm(Exception):
    """Raised by the signal handler in the main thread."""


@dataclass
class Ledger:
    """Records what went into an accumulator and what came out of it. It is thread-safe.

    Attributes:
        name: Name of the accumulator.
        accepted: The sum of the accepted gradients: their number, and the sum of their numbers.
        taken: The sum of what was taken.
        num_stale: How many gradients were not accepted.
        loses: Whether gradients may be discarded by a reset, or lost by an interrupted take.
    """

    name: str
    loses: bool = False
    accepted: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))
    taken: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))
    num_stale: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_apply(self, gradient: np.ndarray, is_accepted: bool) -> None:
        with self._lock:
            if is_accepted:
                self.accepted += gradient
            else:
                self.num_stale += 1

    def note_take(self, values: Any) -> None:
        """Notes a taken sum, or the rows of one."""
        values = getattr(values, "values", values)
        total = np.reshape(values, [-1, 2]).astype(np.int64).sum(0)
        with self._lock:
            self.taken += total

    def faults(self, left: Any, num_dropped: int) -> list[str]:
        """Returns what does not agree, when no thread uses the accumulator any more.

        Args:
            left: What a last take gives.
            num_dropped: How many gradients the accumulator has dropped.
        """
        self.note_take(left)
        missing = self.accepted - self.taken
        faults = []
        if (missing < 0).any() or (missing.any() and not self.loses):
            faults.append(f"{self.name}: accepted {self.accepted}, taken and left {self.taken}")
        if num_dropped != self.num_stale:
            faults.append(f"{self.name}: {self.num_stale} stale, but {num_dropped} dropped")
        return faults


class Dense:
    """A dense accumulator with a ledger."""

    def __init__(self, name: str, dtype: tf.DType, loses: bool = False) -> None:
        self.ledger = Ledger(name, loses)
        self.accumulator = tf_condacc.ConditionalAccumulator(
            dtype, [2], name=name, reduction_type="SUM"
        )

    def gradient(self, draw: random.Random) -> tuple[np.ndarray, Any]:
        """Returns what the ledger notes of a new gradient, and the gradient."""
        noted = np.array([1, draw.randrange(1000)])
        return noted, tf.cast(noted, self.accumulator.dtype)

    def apply(self, gradient: Any, step: Any) -> Any:
        return self.accumulator.try_apply_grad(gradient, step)

    def take(self, num_required: int) -> Any:
        return self.accumulator.take_grad(num_required)

    def try_take(self, num_required: int) -> tuple[Any, Any]:
        return self.accumulator.try_take_grad(num_required)


class Sparse(Dense):
    """A sparse accumulator with a ledger."""

    def __init__(self, name: str, dtype: tf.DType, loses: bool = False) -> None:
        self.ledger = Ledger(name, loses)
        self.accumulator = tf_condacc.SparseConditionalAccumulator(
            dtype, [ROWS, 2], name=name, reduction_type="SUM"
        )

    def gradient(self, draw: random.Random) -> tuple[np.ndarray, Any]:
        rows = [draw.randrange(ROWS) for _ in range(draw.randrange(1, 4))]
        values = np.array([[1, draw.randrange(1000)] for _ in rows])
        slices = tf.IndexedSlices(
            tf.cast(values, self.accumulator.dtype), tf.constant(rows, tf.int64)
        )
        return values.sum(0), slices

    def apply(self, gradient: Any, step: Any) -> Any:
        return self.accumulator.try_apply_indexed_slices_grad(gradient, step)

    def take(self, num_required: int) -> Any:
        return self.accumulator.take_indexed_slices_grad(num_required)

    def try_take(self, num_required: int) -> tuple[Any, Any]:
        taken, value = self.accumulator.try_take_indexed_slices_grad(num_required)
        return taken, value.values


class Soak:
    """The threads, and what they share.

    Args:
        seed: Seed of all random choices but the threads' order.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._ends = threading.Event()
        self.failures: list[str] = []
        self.counts: dict[str, int] = {}
        self._taken: list[tuple[Ledger, Any]] = []  # By the main thread.
        self.shared = [
            kind(f"{kind.__name__.lower()}_{dtype.name}_{loses}", dtype, loses)
            for kind in (Dense, Sparse)
            for dtype, loses in ((tf.int64, False), (tf.float32, True), (tf.float64, False))
        ]
        for each in self.shared:
            each.accumulator.set_global_step(1)

    def run(self, minutes: float) -> list[str]:
        """Runs for so many minutes, and returns what was wrong."""
        kinds: Sequence[tuple[int, Callable[[random.Random], None]]] = (
            (5, self._apply),
            (2, self._try_take),
            (2, self._in_function),
            (4, self._session),
            (1, self._change_step),
            (1, self._reset),
        )
        threads = [
            threading.Thread(target=self._repeat, args=(action, 100 * place + number))
            for place, (count, action) in enumerate(kinds)
            for number in range(count)
        ]
        before = _resources()
        for thread in threads:
            thread.start()
        self._interrupted_takes(time.monotonic() + 60 * minutes)
        self._ends.set()
        for thread in threads:
            thread.join(_END_SECS)
            if thread.is_alive():
                self.failures.append(f"{thread.name} does not end")
        if not self.failures:
            self._check_ledgers()
        del threads
        self.failures += _leaks(before)
        return self.failures

    def _repeat(self, action: Callable[[random.Random], None], number: int) -> None:
        draw = random.Random(self._seed * 1000 + number)
        while not self._ends.is_set() and not self.failures:
            try:
                action(draw)
            except Exception as error:
                self.failures.append(f"{action.__name__}: {type(error).__name__}: {error}")
            self._count(action.__name__)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _apply(self, draw: random.Random) -> None:
        each = draw.choice(self.shared)
        noted, gradient = each.gradient(draw)
        step = ALWAYS if draw.random() < 0.9 else 0
        each.ledger.note_apply(noted, bool(each.apply(gradient, step)))

    def _try_take(self, draw: random.Random) -> None:
        each = draw.choice(self.shared)
        taken, value = each.try_take(draw.randrange(1, 30))
        if taken:
            each.ledger.note_take(value)

    def _in_function(self, draw: random.Random) -> None:
        """Traces a new function now and then, and calls it a few times."""
        each = draw.choice(self.shared)

        @tf.function
        def step(gradient: Any) -> Any:
            accepted = each.apply(gradient, ALWAYS)
            with tf.control_dependencies([accepted]):
                return accepted, each.try_take(2)

        # A sparse gradient has another number of rows each time, and a dense one another number.
        for _ in range(draw.randrange(1, 20)):
            noted, gradient = each.gradient(draw)
            accepted, (taken, value) = step(gradient)
            each.ledger.note_apply(noted, bool(accepted))
            if taken:
                each.ledger.note_take(value)

    def _change_step(self, draw: random.Random) -> None:
        each = draw.choice(self.shared)
        each.accumulator.set_global_step(draw.randrange(1, 1000))
        time.sleep(0.01 * draw.random())

    def _reset(self, draw: random.Random) -> None:
        losing = [each for each in self.shared if each.ledger.loses]
        draw.choice(losing).accumulator.reset(draw.randrange(1, 1000))
        Dense("short-lived", tf.float32).apply(tf.ones([2]), ALWAYS)
        time.sleep(0.01 * draw.random())

    def _session(self, draw: random.Random) -> None:
        """Makes a graph, uses it, and closes the session while a take waits."""
        with tf.Graph().as_default():
            kind = draw.choice((Dense, Sparse))
            each = kind("in_session", tf.int64)
            gradients = [each.gradient(draw) for _ in range(4)]
            applies = [each.apply(gradient, ALWAYS) for _, gradient in gradients]
            stale = each.apply(gradients[0][1], -1)
            take, taken = each.take(2), each.try_take(1)
            number, dropped = each.accumulator.num_accumulated(), each.accumulator.num_dropped()
            waiting = each.take(1000)
            session = v1.Session()
        for _ in range(draw.randrange(1, 30)):
            place = draw.randrange(len(applies))
            each.ledger.note_apply(gradients[place][0], session.run(applies[place]))
            if draw.random() < 0.3:
                each.ledger.note_apply(gradients[0][0], session.run(stale))
            if draw.random() < 0.3 and session.run(number) >= 2:
                each.ledger.note_take(session.run(take))
        if draw.random() < 0.5:
            options = v1.RunOptions(timeout_in_ms=int(1000 * _WAIT_SECS))
            with contextlib.suppress(tf.errors.DeadlineExceededError):
                session.run(waiting, options=options)
                self.failures.append("a take of 1000 has got fewer")
        has_left, left = session.run(taken)
        self.failures += each.ledger.faults(left if has_left else [], session.run(dropped))
        waiter = threading.Thread(target=self._wait_until_closed, args=(session, waiting))
        waiter.start()
        time.sleep(_WAIT_SECS * draw.random())
        session.close()
        waiter.join(_END_SECS)
        if waiter.is_alive():
            self.failures.append("a take waits on although its session was closed")

    def _wait_until_closed(self, session: v1.Session, waiting: Any) -> None:
        try:
            session.run(waiting)
            self.failures.append("a take of 1000 has got fewer")
        except (tf.errors.CancelledError, RuntimeError):  # It was closed before or meanwhile.
            self._count("closed sessions")

    def _interrupted_takes(self, deadline: float) -> None:
        """Takes eagerly in the main thread, interrupted by alarms, and prints the memory."""
        draw = random.Random(self._seed)
        next_print = time.monotonic() + 20
        losing = [each for each in self.shared if each.ledger.loses]

        def take_until_interrupted() -> None:
            nonlocal next_print
            while time.monotonic() < deadline and not self.failures:
                each = draw.choice(losing)
                if time.monotonic() >= next_print:
                    next_print += 20
                    _print_size()
                self.counts["takes in the main thread"] = len(self._taken)
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 0.005 * draw.random())
                self._taken.append((each.ledger, each.take(draw.randrange(1, 10))))

        # An alarm may be raised anywhere, also after the take that it was meant for, and if the
        # system delivers it late: so even the loop that goes on after an alarm is in a `try`.
        with _alarms():
            while time.monotonic() < deadline and not self.failures:
                with contextlib.suppress(Alarm):
                    while time.monotonic() < deadline and not self.failures:
                        try:
                            take_until_interrupted()
                        except Alarm:
                            pass

    def _check_ledgers(self) -> None:
        for ledger, value in self._taken:
            ledger.note_take(value)
        for each in self.shared:
            taken, left = each.try_take(1)
            dropped = int(each.accumulator.num_dropped())
            self.failures += each.ledger.faults(left if taken else [], dropped)


@contextlib.contextmanager
def _alarms() -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _print_size() -> None:
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    print(f"the process has {resident / 2**20:.0f} MiB", flush=True)


def _resources() -> dict[str, int]:
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "file descriptors": len(os.listdir("/proc/self/fd")),
        "bytes held": memory().held,
    }


def _leaks(before: dict[str, int]) -> list[str]:
    """Returns what stays more than it was before the soak."""

    def more() -> list[str]:
        gc.collect()
        return [
            f"{name}: {before[name]} before, {number} afterwards"
            for name, number in _resources().items()
            if number > before[name]
        ]

    end = time.monotonic() + _END_SECS
    while more() and time.monotonic() < end:
        time.sleep(0.1)
    _print_size()
    return more()


def _warm_up() -> None:
    """Starts the threads that TensorFlow and the package keep."""
    soak = Soak(seed=0)
    draw = random.Random(0)
    for _ in range(3):
        soak._session(draw)
    soak._in_function(draw)
    large = tf_condacc.ConditionalAccumulator(tf.float32)
    large.apply_grad(tf.ones([9 << 20]))
    del large  # Starts the thread of timers, one of which frees the pages of this sum.
    time.sleep(0.5)


def main() -> int:
    """Runs the soak and prints what it did."""
    minutes = float(sys.argv[1]) if sys.argv[1:] else 10.0
    seed = int(time.time())
    print(f"seed {seed}, {minutes:g} minutes", flush=True)
    _warm_up()
    soak = Soak(seed)
    failures = soak.run(minutes)
    accepted = sum(int(each.ledger.accepted[0]) for each in soak.shared)
    print(f"{accepted} gradients of {len(soak.shared)} accumulators; {soak.counts}")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
