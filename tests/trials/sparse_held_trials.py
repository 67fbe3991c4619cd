"""Trials of the memory that sparse accumulators hold if none may be kept, and of its release."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import Background
from tests.support.memory_limits import MEGABYTE, resident_bytes
from tests.support.trial_runs import Trials

WIDTH = 64
GRADIENT_BYTES = 24 * MEGABYTE
ROWS = GRADIENT_BYTES // (4 * WIDTH)
TRIALS = Trials()


def gradient() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.range(ROWS, dtype=tf.int64), tf.ones([ROWS, WIDTH])


@TRIALS.add
def four_accumulators_hold_one_gradient_each_beside_their_sums(impl: Any) -> None:
    indices, values = gradient()
    accumulators = [impl.sparse(tf.float32, reduction_type="SUM") for _ in range(4)]
    # After this round, the accumulator expects a take after six gradients.
    for acc in accumulators:
        for _ in range(6):
            acc.apply_grad(indices[:1], values[:1])
        acc.take_grad(6)
    before = resident_bytes()
    for acc in accumulators:
        for _ in range(6):
            acc.apply_grad(indices, values, local_step=1)
    held = resident_bytes() - before
    # These are four sums, a gradient for each, and the memory of one fold.
    assert held < (4 + 4 + 1) * GRADIENT_BYTES, f"{held / GRADIENT_BYTES} gradients"
    for acc in accumulators:
        np.testing.assert_array_equal(acc.take_grad(6).values[::997], np.float32(6))


@TRIALS.add
def takes_do_not_wait_while_the_heap_is_trimmed(impl: Any) -> None:
    """The stand-in of malloc_trim returns when this trial tells it to."""
    begun, may_end = os.environ["CONDACC_TRIM_BEGUN"], os.environ["CONDACC_TRIM_MAY_END"]
    acc = impl.sparse(tf.float32, reduction_type="SUM")
    waiting = Background(lambda: acc.take_grad(16))
    waiting.wait_until_blocked()
    for _ in range(16):
        acc.apply_grad(*gradient())
    Path(begun).open("rb").close()  # This waits until the stand-in has opened the other end.
    assert waiting.result().values[0, 0] == 16
    for step in (1, 2):
        for _ in range(16):
            acc.apply_grad(*gradient(), local_step=step)
        taken, value = acc.try_take_grad(16)
        assert taken and value.values[0, 0] == 16
    Path(may_end).open("wb").close()
    assert ctypes.CDLL(None).count_trims() == 1, "at most one in ten seconds"
