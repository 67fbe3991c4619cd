"""Tests of `reset`, which discards the accumulated gradients and sets the step atomically."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind

v1 = tf.compat.v1
pytestmark = every_kind


def test_many_gradients_are_discarded_whatever_has_been_added_up(contributions):
    acc = contributions(tf.float32, [1000])
    for count in (1, 7, 8, 30):
        for _ in range(count):
            acc.apply(np.ones([1000]))
        assert acc.reset(0) == count
    acc.apply(np.full([1000], 2.0))
    np.testing.assert_array_equal(acc.take(1), np.full([1000], 2.0))


def test_waiting_takes_wait_on(contributions):
    acc = contributions(tf.float32, [1])
    waiting = acc.start_take(3)
    acc.apply([1.0])
    acc.apply([1.0])
    assert acc.reset(6) == 2
    assert not waiting.done
    for value in (2.0, 4.0, 6.0):
        assert not waiting.done
        acc.apply([value], 6)
    np.testing.assert_array_equal(waiting.result(), [4.0])
    assert acc.step() == 7


def test_type_static_shape_and_name_in_a_graph(ours):
    with tf.Graph().as_default():
        acc = ours.public(tf.float32, [1], name="Q")
        discarded = acc.reset(v1.placeholder(tf.int32, None))
        assert (discarded.dtype, discarded.shape.as_list()) == (tf.int64, [])
        prefix = ours.nameless["set_global_step"].removesuffix("SetGlobalStep")
        assert discarded.op.name == f"{prefix}Reset"
        assert acc.reset(1, name="again").op.name == "again"
        with pytest.raises(ValueError, match="must be rank 0"):
            acc.reset([1])
