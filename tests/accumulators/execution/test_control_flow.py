"""Tests of accumulators inside conditionals and loops, with control flow v1 and v2."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.control_flow import control_flow

v1 = tf.compat.v1
pytestmark = every_kind


@pytest.fixture(
    params=[1, pytest.param(2, marks=needs_resource)], ids=["control_flow_v1", "control_flow_v2"]
)
def any_control_flow(request):
    with control_flow(request.param):
        yield request.param


def op_types(graph) -> set[str]:
    return {op.type for op in graph.get_operations()}


def test_apply_and_take_inside_cond(impl, any_control_flow):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        chosen = v1.placeholder(tf.bool, [])

        def branch(value):
            with tf.control_dependencies([acc.apply_grad(value)]):
                return tf.constant(value)

        applied = v1.cond(chosen, lambda: branch(1.0), lambda: branch(5.0))
        taken = v1.cond(chosen, lambda: acc.take_grad(2), lambda: tf.constant(-1.0))
        assert ("Switch" in op_types(graph)) == (any_control_flow == 1)
        assert session.run(applied, {chosen: True}) == 1.0
        assert session.run(acc.num_accumulated()) == 1, "the other branch must not run"
        assert session.run(applied, {chosen: False}) == 5.0
        assert session.run(taken, {chosen: False}) == -1.0
        assert session.run(acc.num_accumulated()) == 2
        assert session.run(taken, {chosen: True}) == 3.0


def test_apply_and_take_inside_while_loop(impl, any_control_flow):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])

        def body(i, total):
            with tf.control_dependencies([acc.apply_grad(tf.cast(i, tf.float32), i)]):
                taken = acc.take_grad(1)
            taken.set_shape([])
            return i + 1, total + taken

        loop = v1.while_loop(
            lambda i, _: i < 50, body, [tf.constant(0), tf.constant(0.0)], parallel_iterations=1
        )
        assert list(session.run(loop)) == [50, 1225.0]


@needs_resource
def test_cond_and_while_inside_a_function(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())

    @tf.function
    def apply_the_even_ones(limit):
        for i in tf.range(limit):
            if i % 2 == 0:
                acc.apply_grad(tf.cast(i, tf.float32))
        return acc.take_grad(1)

    assert apply_the_even_ones(tf.constant(9)) == 4.0
