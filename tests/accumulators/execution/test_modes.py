"""Tests of accumulators in sessions, functions, eager mode and monitored sessions."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name

v1 = tf.compat.v1
pytestmark = every_kind


def test_whole_round_in_one_step_with_control_dependencies(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [2])
        with tf.control_dependencies([acc.apply_grad([1.0, 2.0]), acc.apply_grad([3.0, 4.0])]):
            taken = acc.take_grad(2)
        with tf.control_dependencies([taken]):
            count = acc.num_accumulated()
        value, left = session.run([taken, count])
        np.testing.assert_array_equal(value, [2.0, 3.0])
        assert left == 0


def test_take_and_apply_race_within_one_step(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        step = v1.placeholder(tf.int64, [])
        fetches = [acc.take_grad(3), *(acc.apply_grad(float(v), step) for v in (1, 2, 6))]
        for number in range(50):
            assert session.run(fetches, {step: number})[0] == 3.0


@pytest.mark.kinds("dense")
def test_original_needs_a_name_to_count_an_eager_accumulator_in_a_function(original):
    acc = original.dense(tf.float32, [], shared_name=unique_name())
    with pytest.raises(ValueError, match="'_NumAccumulated' is not a valid root scope name"):
        tf.function(lambda: acc.num_accumulated())()


def test_every_op_needs_no_name_in_a_function(ours):
    acc = ours.dense(tf.float32, [])

    @tf.function
    def everything():
        accepted = acc.try_apply_grad(3.0)
        acc.apply_grad(3.0, -1)
        count = acc.num_accumulated()
        taken, value = acc.try_take_grad(1)
        acc.set_global_step(acc.global_step() + 1)
        return accepted, count, taken, value, acc.num_dropped(), acc.global_step()

    assert [t.numpy() for t in everything()] == [True, 1, True, 3.0, 1, 2]


@needs_resource
def test_function_over_an_outer_accumulator_keeps_the_static_shape(impl):
    acc = impl.dense(tf.float32, [None, 3], shared_name=unique_name())
    concrete = tf.function(lambda: acc.take_grad(1)).get_concrete_function()
    assert str(concrete.output_shapes) == str(impl.static_shape([None, 3]))


@needs_resource
def test_uses_in_one_function_keep_their_order(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())

    @tf.function
    def round_of_two(step):
        acc.apply_grad(2.0, step)
        acc.apply_grad(4.0, step)
        before = acc.num_accumulated(name="before")
        value = acc.take_grad(2)
        return before, value, acc.num_accumulated(name="after")

    for step in range(5):
        assert [t.numpy() for t in round_of_two(tf.constant(step))] == [2, 3.0, 0]


@needs_resource
@pytest.mark.parametrize("is_shared", [False, True])
def test_an_accumulator_made_inside_a_function_keeps_its_state(impl, is_shared):
    name = unique_name(f"inside_{impl.name}")

    @tf.function
    def apply():
        acc = impl.dense(tf.float32, [], name=name, shared_name=name if is_shared else None)
        acc.apply_grad(2.0, 5)
        return acc.num_accumulated()

    assert [int(apply()) for _ in range(3)] == [1, 2, 3]


@needs_resource
def test_gradient_tape_and_accumulator_train_together(impl):
    variable = tf.Variable([1.0, 2.0])
    acc = impl.dense(tf.float32, [2], shared_name=unique_name())

    @tf.function
    def step(number, scale):
        with tf.GradientTape() as tape:
            loss = scale * tf.reduce_sum(variable * variable)
        acc.apply_grad(tape.gradient(loss, variable), number)

    step(tf.constant(0), tf.constant(1.0))
    step(tf.constant(0), tf.constant(3.0))
    np.testing.assert_array_equal(acc.take_grad(2), [4.0, 8.0])


def test_monitored_training_session(impl, tmp_path):
    with tf.Graph().as_default():
        global_step = v1.train.get_or_create_global_step()
        weights = v1.get_variable("w", initializer=[4.0, 8.0])
        acc = impl.dense(tf.float32, [2])
        (gradient,) = v1.gradients(tf.reduce_sum(tf.square(weights)) / 2.0, [weights])
        with tf.control_dependencies([acc.apply_grad(gradient, global_step)]):
            mean = acc.take_grad(1)
        train = v1.train.GradientDescentOptimizer(0.5).apply_gradients(
            [(mean, weights)], global_step
        )
        hooks = [v1.train.StopAtStepHook(last_step=3)]
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), hooks=hooks, log_step_count_steps=None
        ) as session:
            while not session.should_stop():
                session.run(train)
    last = tf.train.latest_checkpoint(str(tmp_path))
    np.testing.assert_array_equal(tf.train.load_variable(last, "w"), [0.5, 1.0])
    assert tf.train.load_variable(last, "global_step") == 3


@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=needs_resource)])
def test_ops_follow_an_explicit_cpu_device(impl, eager):
    with contextlib.nullcontext() if eager else tf.Graph().as_default():
        with v1.device("/CPU:0"):
            acc = impl.dense(tf.float32, [], shared_name=unique_name())
            apply = acc.apply_grad(2.0)
            if eager:
                assert acc.take_grad(1).device.endswith("CPU:0")
            else:
                with v1.Session() as session:
                    session.run(apply)
                    assert session.run(acc.take_grad(1)) == 2.0
