"""Tests of Ctrl-C in an eager update: the reservation ends even if the error is kept."""

from __future__ import annotations

import itertools
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import tensorflow as tf
from accumulator_support import Background
from drop_stale_support import drop_stale

import tf_condacc

tf1 = tf.compat.v1
PACKAGE = str(Path(tf_condacc.__file__).parent)
# These are TensorFlow's wrapper of the operations, and the function that names their outputs.
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
        sys.settrace(self._on_call)
        try:
            call()
        except KeyboardInterrupt as error:
            self.error = error
        finally:
            sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not (code.co_filename.startswith(PACKAGE) or code.co_name.startswith(WRAPPERS)):
            return None
        self._has_begun |= code.co_name == "decide"
        frame.f_trace_opcodes = True
        return self._on_instruction

    def _on_instruction(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and self._has_begun and not self.has_struck:
            self._left -= 1
            if self._left < 0:
                self.has_struck = True
                raise KeyboardInterrupt
        return self._on_instruction


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
        # The last frame belongs to CtrlC.
        place = traceback.extract_tb(ctrl_c.error.__traceback__)[-2]
        assert other.minimize(lambda w=weights: w * 1.0, step, [weights]).numpy() == 0.0, place
        assert int(step) == before + 1
    assert len(kept) > 100
    assert kept[-1] is None


class FailingLater(tf1.train.GradientDescentOptimizer):
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
