"""Tests of the ownership of buffers: no gradient and no taken value is changed later."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.accumulator_support import every_kind, needs_resource, unique_name

v1 = tf.compat.v1
SIZE = 5000


@every_kind
def test_fed_array_may_change_after_the_apply(impl, graph_driver):
    acc = graph_driver(impl, reduction_type="SUM")
    fed = np.ones([100000], np.float32)
    for number in range(3):
        acc.apply(fed)
        np.testing.assert_array_equal(fed, np.full([100000], number + 1.0))
        fed += 1.0
    np.testing.assert_array_equal(acc.take(3), np.full([100000], 6.0))


@every_kind
def test_variables_may_change_after_the_apply(impl):
    for use_resource in (True, False):
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.get_variable("v", initializer=tf.ones([50000]), use_resource=use_resource)
            acc = impl.dense(tf.float32, [50000], reduction_type="SUM")
            apply, change = acc.apply_grad(variable), variable.assign_add(tf.ones([50000]))
            session.run(variable.initializer)
            for _ in range(4):
                session.run(apply)
                session.run(change)
            taken = session.run(acc.take_grad(4))
            np.testing.assert_array_equal(taken, np.full([50000], 10.0))


@every_kind
def test_gradient_with_a_second_consumer_is_not_touched(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        source = v1.placeholder(tf.float32, [1000])
        gradient = source * 2.0
        first = impl.dense(tf.float32, [1000], reduction_type="SUM")
        second = impl.dense(tf.float32, [1000], reduction_type="SUM")
        step = [first.apply_grad(gradient), second.apply_grad(gradient), gradient + 1.0]
        taken = [first.take_grad(3), second.take_grad(3)]
        for value in (1.0, 2.0, 3.0):
            seen = session.run(step, {source: np.full([1000], value)})[2]
            np.testing.assert_array_equal(seen, np.full([1000], 2.0 * value + 1.0))
        for value in session.run(taken):
            np.testing.assert_array_equal(value, np.full([1000], 12.0))


@every_kind
@needs_resource
def test_loop_variable_as_gradient_is_not_changed_afterwards(impl):
    acc = impl.dense(tf.float32, [SIZE], shared_name=unique_name(), reduction_type="SUM")

    @tf.function
    def loop():
        value = tf.zeros([SIZE])
        for _ in tf.range(20):
            value = value + 1.0
            acc.apply_grad(value)
        return acc.take_grad(20), value

    total, last = loop()
    np.testing.assert_array_equal(total, np.full([SIZE], 210.0))
    np.testing.assert_array_equal(last, np.full([SIZE], 20.0))


@every_kind
def test_variable_that_was_assigned_the_taken_value_keeps_it(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        source, step = v1.placeholder(tf.float32, []), v1.placeholder(tf.int64, [])
        acc = impl.dense(tf.float32, [SIZE])
        variables = [
            v1.get_variable(f"v{kind}", initializer=tf.zeros([SIZE]), use_resource=kind)
            for kind in (True, False)
        ]
        gradient = tf.fill([SIZE], source) * 1.0
        applies = [acc.apply_grad(gradient, step), acc.apply_grad(gradient + 2.0, step)]
        taken = acc.take_grad(2)
        assigns = [v1.assign(variable, taken) for variable in variables]
        session.run([variable.initializer for variable in variables])
        for number in range(4):
            session.run([applies, *assigns], {source: float(number), step: number})
            session.run(applies, {source: 1000.0, step: number + 1})
            for variable in variables:
                value = session.run(variable)
                np.testing.assert_array_equal(value, np.full([SIZE], number + 1.0))
            session.run(acc.take_grad(2))
            session.run(acc.set_global_step(number + 1))


@every_kind
def test_one_step_may_apply_the_value_it_takes_to_another_accumulator(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        inner = impl.dense(tf.float32, [SIZE])
        outer = impl.dense(tf.float32, [SIZE], reduction_type="SUM")
        applies = [inner.apply_grad(tf.fill([SIZE], v), step) for v in (1.0, 3.0)]
        mean = inner.take_grad(2)
        pushed, seen = outer.apply_grad(mean), tf.identity(mean)
        for number in range(5):
            value = session.run([seen, pushed, applies], {step: number})[0]
            np.testing.assert_array_equal(value, np.full([SIZE], 2.0))
        total = session.run(outer.take_grad(5))
        np.testing.assert_array_equal(total, np.full([SIZE], 10.0))


@every_kind
@needs_resource
def test_what_is_applied_eagerly_may_change_and_is_not_changed(impl):
    acc = impl.dense(tf.float32, shared_name=unique_name(), reduction_type="SUM")
    array, tensor = np.ones([SIZE], np.float32), tf.ones([SIZE])
    variable, held = tf.Variable(tf.fill([SIZE], 10.0)), []
    for step in range(3):
        for gradient in (array, tensor, variable):
            acc.apply_grad(gradient, step)
        variable.assign_add(tf.ones([SIZE]))
        array *= 10.0
        held.append(acc.take_grad(3))
    for step, taken in enumerate(held):
        np.testing.assert_array_equal(taken, np.full([SIZE], 10.0**step + 11.0 + step))
    acc.apply_grad(tensor, 3)
    tf.raw_ops.InplaceAdd(x=acc.take_grad(1), i=tf.constant([0]), v=tf.constant([5.0]))
    np.testing.assert_array_equal(tensor, np.ones([SIZE]))


def test_row_numbers_may_change_after_the_apply():
    acc = tf_condacc.SparseConditionalAccumulator(tf.float32, reduction_type="SUM")
    rows = np.array([1, 5])
    for _ in range(3):
        acc.apply_grad(rows, tf.ones([2, 500]))
        rows += 1
    taken, again = acc.take_grad(3), acc.apply_grad([1, 5], tf.ones([2, 500]), local_step=1)
    np.testing.assert_array_equal(taken.indices, [1, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(acc.take_grad(1).indices, [1, 5])
    assert again is None and np.all(taken.values == 1.0)
