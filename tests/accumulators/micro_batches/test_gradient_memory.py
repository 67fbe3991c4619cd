"""Tests of the memory that a `GradientAccumulator` holds between micro-batches."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.accumulators.support.memory_limits import MEGABYTE, resident_bytes
from tests.processes.isolated import isolated

pytestmark = pytest.mark.kinds("dense")

GRADIENT_BYTES = 16 * MEGABYTE


# With this setting malloc returns all freed memory, so resident memory is memory that is held.
@isolated({"MALLOC_MMAP_THRESHOLD_": "1000000"})
def test_a_large_gradient_is_not_held_until_the_update(ours):
    size = GRADIENT_BYTES // 4
    accumulator = ours.module.GradientAccumulator([tf.Variable(tf.zeros([size]))], 8)
    ordinary = ours.dense(tf.float32, [size])
    held = []
    for accumulate in (lambda x: accumulator.accumulate([x]), ordinary.try_apply_grad):
        # The function frees its gradient, so the accumulator may keep it.
        apply = tf.function(lambda x, accumulate=accumulate: accumulate(tf.fill([size], x)))
        apply(tf.constant(1.0))  # This gradient becomes the memory of the sum.
        before = resident_bytes()
        for _ in range(5):
            apply(tf.constant(1.0))
        held.append((resident_bytes() - before) / GRADIENT_BYTES)
    assert held[0] < 1
    assert held[1] > 4, "a control: these are held for a faster take"
    assert accumulator.take(1)[0][-1] == 1
