"""Tests of the memory that a `GradientAccumulator` holds between micro-batches."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.memory import MEGABYTE, memory

pytestmark = pytest.mark.kinds("dense")

GRADIENT_BYTES = 16 * MEGABYTE


@isolated()  # Nothing else in the process frees memory meanwhile.
def test_a_large_gradient_is_not_held_until_the_update(ours):
    skip_on_gpu("a GPU has other rules for what is held")
    size = GRADIENT_BYTES // 4
    accumulator = ours.module.GradientAccumulator([tf.Variable(tf.zeros([size]))], 8)
    ordinary = ours.dense(tf.float32, [size])
    held = []
    for accumulate in (lambda x: accumulator.accumulate([x]), ordinary.try_apply_grad):
        # The function frees its gradient, so the accumulator may keep it.
        apply = tf.function(lambda x, accumulate=accumulate: accumulate(tf.fill([size], x)))
        apply(tf.constant(1.0))  # This gradient becomes the memory of the sum.
        before = memory().held
        for _ in range(5):
            apply(tf.constant(1.0))
        held.append((memory().held - before) / GRADIENT_BYTES)
    assert held == [0, 5], "the second is a control: these are held for a faster take"
    assert accumulator.take(1)[0][-1] == 1
