"""Tests of eager takes that are interrupted: by Ctrl-C, or by exceptions of signal handlers."""

from __future__ import annotations

import dis
import linecache
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.isolated import isolated
from tests.support.waiting import until, work
from tf_condacc import _tensorflow
from tf_condacc._accumulators import eager

pytestmark = isolated()
NEVER_STALE = 2**60
FUNCTIONS = {
    function.__code__
    for function in (
        eager.execute_interruptibly,
        _tensorflow.cancellable,
    )
}


class Interrupt(Exception):
    """Raised by the handler of a signal."""


class Takes:
    """An accumulator whose gradients are counted: those that came, and those that were taken."""

    def __init__(self, kind: str) -> None:
        self.is_dense = kind == "dense"
        if self.is_dense:
            self.accumulator: Any = tf_condacc.ConditionalAccumulator(
                tf.float32, [1], reduction_type="SUM"
            )
        else:
            self.accumulator = tf_condacc.SparseConditionalAccumulator(
                tf.float32, [None, 1], reduction_type="SUM"
            )
        self.num_applied = self.num_taken = 0
        self._rows, self._values = tf.constant([3]), tf.ones([1, 1])
        self._gradient = tf.ones([1])
        # The first take makes the tensor of the number 1, which later ones find in a cache.
        # TensorFlow may raise an error of its own instead of an interrupt that comes meanwhile.
        self.apply()
        self.count(self.accumulator.take_grad(1))

    def apply(self) -> None:
        self.num_applied += 1
        if self.is_dense:
            self.accumulator.apply_grad(self._gradient, NEVER_STALE)
        else:
            self.accumulator.apply_grad(self._rows, self._values, local_step=NEVER_STALE)

    def apply_later(self, seconds: float) -> threading.Thread:
        thread = threading.Thread(target=lambda: (work(seconds), self.apply()))
        thread.start()
        return thread

    def count(self, gradient: Any) -> None:
        """Counts what a take has returned."""
        values = gradient if self.is_dense else gradient.values
        self.num_taken += int(tf.reduce_sum(values))

    def check(self, where: str = "") -> None:
        """Checks that no take is left behind.

        Then the next take gets each gradient that has not been taken. What an interrupted take has
        taken is lost.
        """
        self.apply()
        left = int(self.accumulator.num_accumulated())
        taken, gradient = self.accumulator.try_take_grad(1)
        assert taken, f"an interrupted take has taken a gradient for nobody: {where}"
        before = self.num_taken
        self.count(gradient)
        assert self.num_taken == before + left <= self.num_applied, where


@pytest.fixture
def alarms() -> Iterator[None]:
    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.long  # TensorFlow or NumPy may swallow an alarm, and this test would then wait.
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_take_that_an_alarm_interrupts_leaves_none_behind(alarms, kind, monkeypatch, poll_secs):
    monkeypatch.setattr(eager, "_POLL_SECONDS", poll_secs)
    takes, draw = Takes(kind), random.Random(7)
    for number in range(2000):
        what = ("ready", "waiting", "served")[number % 3]
        threads = []
        if what == "ready":
            takes.apply()
        elif what == "served":
            threads.append(takes.apply_later(draw.uniform(0, 0.004)))
        longest = 0.0005 if what == "ready" else 0.006
        gradients = []
        with pytest.raises(Interrupt):
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, longest))
            gradients.append(takes.accumulator.take_grad(1))
            until(lambda: False, "the alarm")
        for thread in threads:
            thread.join()
        for gradient in gradients:
            takes.count(gradient)
        takes.check()


class InterruptAt:
    """Raises an exception when the main thread comes to a place of `FUNCTIONS` for some time.

    Python handles signals when a function begins, at the end of calls and before jumps back. A
    trace comes one instruction later than a signal in a call, so it is left out where the code does
    nothing but return the result of the call.

    Args:
        index: The number of the place, in the order in which the thread comes to the places.
        serve: Called once, when the thread has looked in vain for the end of its take.
    """

    def __init__(self, index: int, serve: Callable[[], None] | None = None) -> None:
        self.index = index
        self._serve = serve
        self.place = ""  # Where the exception was raised.
        self._places: dict[CodeType, set[int]] = {}

    def __enter__(self) -> InterruptAt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code not in FUNCTIONS:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "call":
            self._pass(frame)
        elif event == "opcode" and frame.f_lasti in self._places_of(frame.f_code):
            if self._serve and "_POLL_SECONDS" in linecache.getline(
                frame.f_code.co_filename, frame.f_lineno
            ):
                self._serve()
                self._serve = None
            self._pass(frame)
        return self._trace

    def _places_of(self, code: CodeType) -> set[int]:
        if code not in self._places:
            instructions = list(dis.get_instructions(code))
            after = {
                second.offset
                for first, second in zip(instructions, instructions[1:], strict=False)
                if first.opname.startswith("CALL") and second.opname != "RETURN_VALUE"
            }
            back = {each.offset for each in instructions if each.opname.startswith("JUMP_BACK")}
            self._places[code] = after | back
        return self._places[code]

    def _pass(self, frame: FrameType) -> None:
        self.index -= 1
        if self.index < 0:
            self.place = f"{frame.f_code.co_name}, line {frame.f_lineno}, {frame.f_lasti}"
            sys.settrace(None)
            raise Interrupt


@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_take_that_is_interrupted_at_any_place_is_cancelled(
    kind, is_served, monkeypatch, poll_secs
):
    monkeypatch.setattr(eager, "_POLL_SECONDS", poll_secs if is_served else 0.001)
    takes, num_places = Takes(kind), 0
    while True:
        interrupt = InterruptAt(num_places, takes.apply if is_served else None)
        try:
            with interrupt:
                takes.count(takes.accumulator.take_grad(1))
        except Interrupt:
            takes.check(interrupt.place)
            num_places += 1
            if not is_served:  # Nothing was taken before the interrupt, so nothing is lost.
                assert takes.num_taken == takes.num_applied, interrupt.place
                if num_places == 30:  # A take that waits has no last place.
                    break
        else:
            break
    assert num_places >= 8
    takes.check()
