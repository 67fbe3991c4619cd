"""Tests of Ctrl-C in an eager update: the reservation ends even if the error is kept."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.drop_stale_support import drop_stale
from tests.support.waiting import Background

v1 = tf.compat.v1
PACKAGE = str(Path(tf_condacc.__file__).parent)
# TensorFlow's wrapper of the operations, and the function that names their outputs.
WRAPPERS = ("condacc_staleness_gate_", "_make")


class CtrlC:
    """Interrupts a call at the n-th instruction after the beginning of the decision.

    Only instructions of this package and of TensorFlow's wrappers of its operations count.

    Attributes:
        has_struck: Whether the call was long enough to be interrupted.
        error: The interrupt, with all its frames.
    """

    def __init__(self, instruction: int) -> None:
        self._left = instruction
        self._has_begun = False
        self.has_struck = False
        self.error: KeyboardInterrupt | None = None

    def during(self, call: Any) -> None:
        watch = _monitoring if sys.version_info >= (3, 12) else _tracing
        try:
            with watch(self._counts, self._before_instruction):
                call()
        except KeyboardInterrupt as error:
            self.error = error

    def _counts(self, code: CodeType) -> bool:
        self._has_begun |= code.co_name == "decide" and code.co_filename.startswith(PACKAGE)
        return code.co_filename.startswith(PACKAGE) or code.co_name.startswith(WRAPPERS)

    def _before_instruction(self) -> None:
        if self._has_begun and not self.has_struck:
            self._left -= 1
            if self._left < 0:
                self.has_struck = True
                raise KeyboardInterrupt


@contextlib.contextmanager
def _tracing(counts: Callable[[CodeType], bool], before: Callable[[], None]) -> Iterator[None]:
    """Calls ``before`` before each instruction of the counted functions, in this thread."""

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        if not counts(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        return on_instruction

    def on_instruction(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            before()
        return on_instruction

    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(None)


@contextlib.contextmanager
def _monitoring(counts: Callable[[CodeType], bool], before: Callable[[], None]) -> Iterator[None]:
    """Does the same from Python 3.12 on, where tracing leaves out instructions."""
    monitoring = sys.monitoring
    tool, events = monitoring.DEBUGGER_ID, monitoring.events
    thread = threading.get_ident()
    watched = set()

    def on_start(code: CodeType, offset: int) -> None:
        if threading.get_ident() == thread and counts(code) and code not in watched:
            watched.add(code)
            monitoring.set_local_events(tool, code, events.INSTRUCTION)

    def on_instruction(code: CodeType, offset: int) -> None:
        if threading.get_ident() == thread:
            before()

    monitoring.use_tool_id(tool, "Ctrl-C")
    monitoring.register_callback(tool, events.PY_START, on_start)
    monitoring.register_callback(tool, events.INSTRUCTION, on_instruction)
    monitoring.set_events(tool, events.PY_START)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        for code in watched:
            monitoring.set_local_events(tool, code, 0)
        monitoring.register_callback(tool, events.PY_START, None)
        monitoring.register_callback(tool, events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)


def new_variables() -> tuple[tf.Variable, tf.Variable]:
    return tf.Variable(0, dtype=tf.int64), tf.Variable(0.0)


@pytest.mark.parametrize("stale", [False, True], ids=["accepted", "dropped"])
def test_next_update_is_accepted_wherever_the_interrupt_strikes(stale):
    kept = []
    for instruction in itertools.count():
        step, weights = new_variables()
        optimizer, other = drop_stale(-1 if stale else 0), drop_stale(0)
        ctrl_c = CtrlC(instruction)

        def update(optimizer=optimizer, step=step, weights=weights):
            return optimizer.minimize(lambda: weights * 1.0, step, [weights])

        # The thread ends afterwards, so a device scope that is not left affects no other test.
        Background(ctrl_c.during, update).result()
        kept.append(ctrl_c.error)
        if not ctrl_c.has_struck:
            break
        assert ctrl_c.error is not None, "nobody may keep an interrupt to himself"
        before = int(step)
        # The last two frames belong to CtrlC.
        place = traceback.extract_tb(ctrl_c.error.__traceback__)[-3]
        assert other.minimize(lambda w=weights: w * 1.0, step, [weights]).numpy() == 0.0, place
        assert int(step) == before + 1
    assert len(kept) > 100
    assert kept[-1] is None


class FailingLater(v1.train.GradientDescentOptimizer):
    """Applies an update and then raises KeyboardInterrupt."""

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        super().apply_gradients(*args, **kwargs)
        raise KeyboardInterrupt


def test_local_variables_of_the_wrapped_optimizer_can_still_be_looked_at():
    """Debuggers show them, so only variables that hold the decision itself are cleared."""
    step, weights = new_variables()
    with pytest.raises(KeyboardInterrupt) as caught:
        drop_stale(0, FailingLater(0.5)).minimize(lambda: weights * 1.0, step, [weights])
    frames = [entry.frame for entry in caught.traceback]
    assert frames[-1].f_locals["args"], "the arguments of the wrapped optimizer"
    assert drop_stale(0).minimize(lambda: weights * 1.0, step, [weights]).numpy() == 0.0
