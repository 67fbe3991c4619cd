"""Tests of the steps of a sum of towers: they never mix, and leave no memory behind."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

import tf_condacc
from tests.support.accumulator_support import Announcement
from tests.support.control_flow import control_flow
from tests.support.memory import MEGABYTE, memory
from tests.support.tower_support import (
    Recording,
    new_session,
    replicate,
    rows,
    sums_one_by_one,
)
from tests.support.waiting import Background, until
from tf_condacc import estimator
from tf_condacc._towers.reduction import sum_gradients

v1 = tf.compat.v1
BIG = 8 * MEGABYTE  # Number of float32 elements.


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_step_that_fails_or_is_cancelled_leaves_nothing_behind(kind: str):
    with tf.Graph().as_default() as graph:
        value, fails = v1.placeholder(tf.float32, []), v1.placeholder(tf.bool, [])
        queue = v1.FIFOQueue(1, [tf.float32], [[]])
        variable = v1.get_variable("v", [8, BIG // 8], use_resource=True)

        def gradient(scale):
            values = tf.fill([8, BIG // 8], scale)
            return values if kind == "dense" else tf.IndexedSlices(values, tf.range(8))

        # The second tower's gradient waits for the queue. It may fail instead, or never come.
        check = tf.debugging.Assert(tf.logical_not(fails), ["the second tower fails"])
        with tf.control_dependencies([check]):
            late = queue.dequeue()
        total = sum_gradients([gradient(value), gradient(late)], variable)
        with tf.control_dependencies([graph.get_operation_by_name("add")]):
            announcement = Announcement()
        enqueue = queue.enqueue([1.0])
        fetches = [total.op if kind == "dense" else total.values.op, announcement.op]
        feed = {value: 1.0, fails: False}
        with new_session() as session:
            before = memory().held
            for _ in range(3):
                with pytest.raises(tf.errors.InvalidArgumentError, match="second tower fails"):
                    session.run(fetches, {**feed, fails: True})
            until(lambda: memory().held <= before, "a failed step holds nothing")
            announcement.clear()
            run = Background(lambda: session.run(fetches, feed))
            announcement.wait()  # The first gradient is in the sum now.
            assert memory().held > before + 2 * BIG, "half of a gradient"
            session.close()
            assert isinstance(run.error(), tf.errors.CancelledError)
            # The session's resources live as long as the session itself.
            until(lambda: memory().held <= before, "a cancelled step holds nothing")
        with new_session() as session:
            session.run(enqueue)
            done = session.run(total, feed)
            assert np.all((done if kind == "dense" else done.values) == 2.0)
            until(lambda: memory().held <= before, "a step that has ended holds nothing")


@pytest.mark.parametrize("version", [1, 2])
def test_iterations_of_a_loop_never_mix(version: int):
    with control_flow(version), sums_one_by_one(), tf.Graph().as_default():
        variable = v1.get_variable("v", [3], use_resource=True)

        def body(i, totals):
            number = tf.cast(i, tf.float32)
            dense = sum_gradients([tf.fill([3], number), tf.fill([3], 10 * number)], variable)
            sparse = sum_gradients([rows([1], [1.0], [3]) for _ in range(2)], variable)
            return i + 1, totals.write(i, dense + tf.reduce_sum(sparse.values))

        array = tf.TensorArray(tf.float32, size=200, element_shape=[3])
        _, totals = v1.while_loop(
            lambda i, _: i < 200, body, [tf.constant(0), array], parallel_iterations=16
        )
        with new_session(inter_op_parallelism_threads=8) as session:
            values = session.run(totals.stack())
    np.testing.assert_array_equal(values, np.repeat(11.0 * np.arange(200)[:, None] + 2, 3, axis=1))


def test_a_function_sums_in_each_call_anew():
    variable = tf.Variable([0.0, 0.0])

    @tf.function
    def total(value):
        dense = sum_gradients([value, 2.0 * value, 3.0 * value], variable)
        sparse = sum_gradients([rows([0], [1.0], [2]), rows([1, 0], [2.0, 3.0], [2])], variable)
        return dense + tf.convert_to_tensor(sparse)

    for number in (1.0, 5.0):
        value = total(tf.constant([number, 10 * number]))
        assert value.numpy().tolist() == [6 * number + 4, 60 * number + 2]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("deterministic", [None, True])
def test_gradients_are_added_in_the_order_of_the_towers_on_demand(
    one_by_one: bool, deterministic: bool | None
):
    # Each order of these parts has a different float32 sum. The second tower's gradient comes last.
    parts = [2.0**24, 1.0, 1.0, -(2.0**24)]
    expected = np.float32(0)
    for part in parts:
        expected += np.float32(part)
    if deterministic is None:
        tf.config.experimental.enable_op_determinism()
    try:
        with sums_one_by_one(one_by_one), tf.Graph().as_default() as graph:
            variable = v1.get_variable("v", initializer=[0.0], use_resource=True)
            last = v1.py_func(lambda value: value, [[np.float32(parts[1])]], tf.float32)
            last.set_shape([1])
            gradients = [tf.constant([part]) for part in parts]
            gradients[1] = last
            total = sum_gradients(gradients, variable, deterministic)
            adds = [op for op in graph.get_operations() if op.type == "Condacc>TowerDenseAdd"]
            if one_by_one:
                assert [op.control_inputs for op in adds] == [[], *[[add] for add in adds[:-1]]]
            with new_session(inter_op_parallelism_threads=4) as session:
                assert {float(session.run(total)[0]) for _ in range(50)} == {float(expected)}
    finally:
        config.disable_op_determinism()


@pytest.mark.parametrize("deterministic", [False, True])
def test_an_optimizer_is_told_to_add_in_the_order_of_the_towers(deterministic: bool):
    def model_fn(features, labels, mode):
        loss = tf.reduce_sum(v1.get_variable("w", initializer=[0.0]) * 2.0)
        optimizer = tf_condacc.TowerOptimizer(Recording())
        optimizer.configure(deterministic=deterministic)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    with sums_one_by_one(), tf.Graph().as_default() as graph:
        replicate(model_fn, 3, features=None)
        adds = [op for op in graph.get_operations() if op.type == "Condacc>TowerDenseAdd"]
        after = [[add for add in op.control_inputs if add in adds] for op in adds]
        assert after == ([[], [adds[0]], [adds[1]]] if deterministic else [[], [], []])
