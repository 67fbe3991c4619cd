"""Tests of the memory that sparse accumulators hold if none may be kept, and of its release."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.stand_ins import needs_stand_ins, stand_ins_without_holding
from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.memory import MEGABYTE, memory
from tests.support.waiting import Background

pytestmark = pytest.mark.kinds("sparse")

WIDTH = 64
GRADIENT_BYTES = 24 * MEGABYTE
ROWS = GRADIENT_BYTES // (4 * WIDTH)


def gradient() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.range(ROWS, dtype=tf.int64), tf.ones([ROWS, WIDTH])


@isolated({"TF_CONDACC_HOLD_BYTES": "0"})
def test_four_accumulators_hold_one_gradient_each_beside_their_sums(ours):
    skip_on_gpu("a GPU has other rules for what is held")
    indices, values = gradient()
    accumulators = [ours.sparse(tf.float32, reduction_type="SUM") for _ in range(4)]
    # After this round, the accumulator expects a take after six gradients.
    for acc in accumulators:
        for _ in range(6):
            acc.apply_grad(indices[:1], values[:1])
        acc.take_grad(6)
    before = memory().held
    for acc in accumulators:
        for _ in range(6):
            acc.apply_grad(indices, values, local_step=1)
    held = memory().peak - before
    # Four sums, a gradient for each, and the memory of one fold.
    assert held < (4 + 4 + 1) * GRADIENT_BYTES, f"{held / GRADIENT_BYTES} gradients"
    for acc in accumulators:
        np.testing.assert_array_equal(acc.take_grad(6).values[::997], np.float32(6))


def test_a_take_of_a_single_gradient_in_order_needs_no_memory(ours):
    skip_on_gpu("a GPU sorts every gradient")
    acc = ours.sparse(tf.float32)
    acc.apply_grad(*gradient())
    before = memory().held
    taken = acc.take_grad(1)
    assert memory().peak <= before
    np.testing.assert_array_equal(taken.indices, np.arange(ROWS))
    np.testing.assert_array_equal(taken.values[::997], np.float32(1))


@isolated(stand_ins_without_holding)
@needs_stand_ins
def test_takes_do_not_wait_while_the_heap_is_trimmed(ours, tmp_path, monkeypatch):
    """The stand-in of malloc_trim returns when this test tells it to."""
    begun, may_end = tmp_path / "begun", tmp_path / "may_end"
    for pipe in (begun, may_end):
        os.mkfifo(pipe)
        monkeypatch.setenv(f"CONDACC_TRIM_{pipe.name.upper()}", str(pipe))
    acc = ours.sparse(tf.float32, reduction_type="SUM")
    waiting = Background(lambda: acc.take_grad(16))
    waiting.wait_until_blocked()
    for _ in range(16):
        acc.apply_grad(*gradient())
    begun.open("rb").close()  # Waits until the stand-in has opened the other end.
    assert waiting.result().values[0, 0] == 16
    for step in (1, 2):
        for _ in range(16):
            acc.apply_grad(*gradient(), local_step=step)
        taken, value = acc.try_take_grad(16)
        assert taken and value.values[0, 0] == 16
    may_end.open("wb").close()
    assert ctypes.CDLL(None).count_trims() == 1, "at most one in ten seconds"
