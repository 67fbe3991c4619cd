"""Tests of `try_take_grad` with a global step: it takes at that step only, and never waits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind

v1 = tf.compat.v1
pytestmark = every_kind


def test_does_not_overtake_a_waiting_take(contributions):
    acc = contributions(tf.float32, [1])
    waiting = acc.start_take(2)
    acc.apply([1.0])
    assert acc.take_round(1, 0)[0] is False
    acc.apply([3.0])
    np.testing.assert_array_equal(waiting.result(), [2.0])


def test_what_is_not_taken_has_the_right_dtype(contributions):
    acc = contributions(tf.float64, [3])
    assert acc.take_round(1, 0)[1].dtype == np.float64


@pytest.mark.parametrize("required", [0, -1])
@pytest.mark.parametrize("step", [0, 9])
def test_refuses_a_number_below_one(contributions, required, step):
    acc = contributions(tf.float32, [1])
    acc.apply([1.0])
    message = f"must be positive, but was {required}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        acc.take_round(required, step)
    assert (acc.count(), acc.step()) == (1, 0)


def test_refuses_to_wrap_the_step(contributions):
    acc = contributions(tf.float32, [1])
    acc.set_step(2**63 - 1)
    acc.apply([1.0], 2**63 - 1)
    with pytest.raises(tf.errors.OutOfRangeError):
        acc.take_round(1, 2**63 - 1)
    assert acc.count() == 1


@pytest.mark.parametrize("step", [1, np.int32(1), tf.constant(1), 1.0], ids=lambda s: repr(type(s)))
def test_steps_of_every_type_are_cast(ours, step):
    acc = ours.dense(tf.float32, [1])
    acc.set_global_step(1)
    acc.apply_grad([1.0], 1)
    assert acc.try_take_grad(1, global_step=step)[0]


def test_types_static_shapes_and_names_in_a_graph(ours):
    with tf.Graph().as_default():
        acc = ours.public(tf.float32, [1])
        taken, value = acc.try_take_grad(1, global_step=v1.placeholder(tf.int64, None))
        assert (taken.dtype, taken.shape.as_list()) == (tf.bool, [])
        if ours.kind == "sparse":
            assert [part.dtype for part in value] == [tf.int64, tf.float32, tf.int64]
        else:
            assert (value.dtype, value.shape.as_list()) == (tf.float32, [1])
        prefix = ours.nameless["take_grad"].removesuffix("TakeGradient")
        assert taken.op.name == f"{prefix}TryTakeGradient"
        assert taken.op.op_def.is_stateful
        assert acc.try_take_grad(1, name="mine", global_step=2)[0].op.name == "mine"
        with pytest.raises(ValueError, match="must be rank 0"):
            acc.try_take_grad(1, global_step=[1])
        with pytest.raises(ValueError, match="must be rank 0"):
            acc.try_take_grad([1], global_step=1)
