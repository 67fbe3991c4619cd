"""Tests of the local step, which is read before the forward pass anywhere in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    Interlude,
    LateTraining,
    assert_read_after_local_step,
    assert_second_update_is_dropped,
    drop_stale,
    every_switches,
    global_step,
    half_square,
    new_session,
    own_step,
)

v1 = tf.compat.v1
Model = Callable[[Interlude], tuple[tf.Tensor, list[Any]]]


def vector() -> Any:
    return v1.get_variable("w", initializer=tf.constant(START))


def in_cond(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()
    loss = v1.cond(
        v1.placeholder_with_default(True, []),
        lambda: half_square(interlude(tf.identity(weights))),
        lambda: tf.reduce_sum(weights),
    )
    return loss, [weights]


def in_cond_of_a_value_that_was_read_outside(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()
    value = tf.identity(weights)
    loss = v1.cond(
        tf.reduce_sum(value) > -1e9,
        lambda: half_square(interlude(value)),
        lambda: tf.reduce_sum(value),
    )
    return loss, [weights]


def in_while_loop(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    """Reads the variable outside of a loop and uses it in every iteration, as dynamic RNNs do."""
    weights = vector()
    value = tf.convert_to_tensor(weights)
    _, total = v1.while_loop(
        lambda i, _: i < 1,
        lambda i, total: (i + 1, total + interlude(value)),
        [tf.constant(0), tf.zeros([3])],
    )
    return half_square(total), [weights]


def read_in_while_loop(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()
    _, total = v1.while_loop(
        lambda i, _: i < 1,
        lambda i, total: (i + 1, total + interlude(tf.identity(weights))),
        [tf.constant(0), tf.zeros([3])],
    )
    return half_square(total), [weights]


def in_cond_in_while_loop(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()

    def body(i, total):
        more = v1.cond(i < 5, lambda: interlude(tf.identity(weights)), lambda: tf.zeros([3]))
        return i + 1, total + more

    loop = v1.while_loop(lambda i, _: i < 1, body, [tf.constant(0), tf.zeros([3])])
    return half_square(loop[1]), [weights]


def in_function(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()
    compute = tf.function(lambda value: half_square(interlude(value)))
    return compute(tf.identity(weights)), [weights]


def embedded(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    weights = vector()
    return half_square(interlude(tf.gather(weights, [0, 1, 2]))), [weights]


def read_twice(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    """Reads a variable twice; the second read waits for the first."""
    weights = vector()
    with tf.control_dependencies([interlude(tf.identity(weights))]):
        return half_square(tf.identity(weights)), [weights]


MODELS = [
    in_cond,
    in_cond_of_a_value_that_was_read_outside,
    in_while_loop,
    read_in_while_loop,
    in_cond_in_while_loop,
    in_function,
    embedded,
    read_twice,
]


every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


every_step = pytest.mark.parametrize(
    "make_step", [global_step, own_step], ids=lambda make: make.__name__
)


@every_switches
@every_step
@every_model
def test_forward_pass_waits_for_the_local_step(switches, model, make_step):
    training = LateTraining(model=model, make_step=make_step)
    assert_read_after_local_step(training.loss, training.weights)


@every_step
@every_model
def test_step_that_moves_on_during_the_forward_pass_makes_the_update_stale(
    v1_graph, model, make_step
):
    training = LateTraining(model=model, make_step=make_step)
    training.expect_late_updates_to_be_dropped(late_by=1)


@every_step
def test_function_that_reads_the_variable_itself(v1_graph, make_step):
    weights, step, interlude = vector(), make_step(), Interlude()
    compute = tf.function(lambda: half_square(interlude(weights.read_value())))
    loss = compute()
    train = drop_stale().minimize(loss, step, [weights])
    assert_read_after_local_step(loss, weights)
    assert_second_update_is_dropped(train, step, interlude, weights)


@every_switches
@every_step
def test_under_a_forward_pass_that_reads_the_step_itself(switches, make_step):
    """Learning rates and noise may depend on the step; its read must not wait for itself."""
    step, interlude, weights = make_step(), Interlude(), vector()
    scale = tf.cast(step >= 0, tf.float32)
    with tf.control_dependencies([tf.identity(step)]):
        loss = half_square(interlude(tf.identity(weights) * scale))
    train = drop_stale().minimize(loss, step)
    assert_read_after_local_step(loss, weights)
    assert_second_update_is_dropped(train, step, interlude, weights)


def batch_norm(value: tf.Tensor) -> tf.Tensor:
    """Returns a normalized batch; adds the updates of the moving averages to UPDATE_OPS."""
    channels = value.shape[-1]
    normalized, mean, variance = v1.nn.fused_batch_norm(
        value, tf.ones([channels]), tf.zeros([channels]), is_training=True
    )[:3]
    for name, new in (("moving_mean", mean), ("moving_variance", variance)):
        average = v1.get_variable(name, shape=[channels], trainable=False)
        update = v1.assign_sub(average, (average - new) * 0.5)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return normalized


@every_switches
def test_under_update_ops_of_a_batch_norm(switches):
    step, interlude = global_step(), Interlude()
    weights = v1.get_variable("w", initializer=tf.ones([2, 3]))
    batch = tf.reshape(tf.range(8.0), [4, 2])
    hidden = interlude(tf.matmul(batch, tf.convert_to_tensor(weights)))
    normalized = batch_norm(tf.reshape(hidden, [4, 1, 1, 3]))
    loss = half_square(normalized - 1.0)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    optimizer = drop_stale()
    with tf.control_dependencies(updates):
        train = optimizer.minimize(loss, step, [weights])
    assert_read_after_local_step(loss, weights)
    counts = [optimizer.num_accepted(), optimizer.num_dropped()]
    advance = v1.assign_add(step, 1)
    (average,) = [v for v in v1.global_variables() if v.op.name == "moving_mean"]
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        session.run(average.assign([0.0, 0.0, 0.0]))
        interlude.action = lambda: session.run(advance)
        assert session.run(train) == 1.0
        np.testing.assert_array_equal(session.run(weights), np.ones([2, 3]))
        np.testing.assert_array_equal(session.run(average), [3.5, 3.5, 3.5], "is not dropped")
        interlude.action = lambda: None
        assert session.run(train) == 1.0
        assert session.run(step) == 2
        assert session.run(counts) == [1, 1]


def test_under_control_dependencies_on_the_whole_forward_pass(v1_graph):
    step, interlude, weights = global_step(), Interlude(), vector()
    loss = half_square(interlude(tf.identity(weights)))
    optimizer = drop_stale()
    with tf.control_dependencies([loss]):
        pairs = optimizer.compute_gradients(tf.identity(loss))
    assert_read_after_local_step(loss, weights)
    train = optimizer.apply_gradients(pairs, step)
    assert_second_update_is_dropped(train, step, interlude, weights)
