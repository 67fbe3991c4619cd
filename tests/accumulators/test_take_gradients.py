"""Tests of `tf.gradients` through an accumulator: gradients end there, as with TensorFlow's own."""

import pytest
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1


def dense_take():
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
    return accumulator.apply_grad(2.0, 10), lambda: accumulator.take_grad(1)


def sparse_take():
    accumulator = tf_condacc.SparseConditionalAccumulator(tf.float32, [4])
    apply = accumulator.apply_grad([1], [2.0], None, 10)
    return apply, lambda: tf.reduce_sum(accumulator.take_grad(1).values)


@pytest.mark.parametrize("make", [dense_take, sparse_take])
@pytest.mark.parametrize("control_flow_v2", [False, True])
def test_gradient_goes_through_a_loop_around_a_take(make, control_flow_v2):
    with tf.Graph().as_default(), v1.Session() as session:
        (v1.enable_control_flow_v2 if control_flow_v2 else v1.disable_control_flow_v2)()
        try:
            apply, take = make()
            weight = tf.constant(3.0)
            _, result = v1.while_loop(
                lambda i, _: i < 1, lambda i, total: (i + 1, total * weight + take()), [0, 5.0]
            )
            (gradient,) = v1.gradients(result, weight)
        finally:
            v1.enable_control_flow_v2()
        session.run(apply)
        assert session.run([result, gradient]) == [17.0, 5.0]


@pytest.mark.parametrize("make", [dense_take, sparse_take])
def test_gradient_of_what_is_taken_is_none(make):
    with tf.Graph().as_default():
        source = tf.constant(2.0)
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
        with tf.control_dependencies([accumulator.apply_grad(source)]):
            assert v1.gradients(accumulator.take_grad(1), source) == [None]
        _, take = make()
        assert v1.gradients(take(), source) == [None]
