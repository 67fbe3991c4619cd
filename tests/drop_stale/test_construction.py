"""Tests of the public class: signatures, names, and accepted and refused arguments."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    LateTraining,
    drop_stale,
    global_step,
    half_square,
    one_vector,
    switched,
)
from tests.support.signatures import bare_signature
from tf_condacc import DropStaleGradientOptimizer

v1 = tf.compat.v1
BASE = v1.train.Optimizer


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("__init__", "(self, opt, staleness, use_locking=False, name='DropStaleGradient')"),
        ("compute_gradients", "(self, loss, *args, **kwargs)"),
        ("apply_gradients", "(self, grads_and_vars, global_step=None, name=None)"),
        ("get_slot", "(self, *args, **kwargs)"),
        ("get_slot_names", "(self, *args, **kwargs)"),
        ("variables", "(self)"),
        ("get_name", "(self)"),
        ("num_dropped", "(self, name=None)"),
        ("num_accepted", "(self, name=None)"),
    ],
)
def test_signature(method, expected):
    assert bare_signature(getattr(DropStaleGradientOptimizer, method)) == expected


def test_public_names_are_those_of_optimizers_and_the_promised_ones():
    assert issubclass(DropStaleGradientOptimizer, BASE)
    assert bare_signature(DropStaleGradientOptimizer.minimize) == bare_signature(BASE.minimize)
    own = {name for name in vars(DropStaleGradientOptimizer) if not name.startswith("_")}
    beyond = own - {name for name in dir(BASE) if not name.startswith("_")}
    assert beyond == {"num_dropped", "num_accepted"}


def test_arguments_may_be_given_by_position():
    optimizer = DropStaleGradientOptimizer(
        v1.train.GradientDescentOptimizer(1.0, name="inner"), 3, True, "mine"
    )
    assert optimizer.get_name() == "mine"
    assert optimizer._use_locking is True
    assert drop_stale().get_name() == "DropStaleGradient"


def test_it_can_be_subclassed(v1_graph):
    class Clipping(DropStaleGradientOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            clipped = [(tf.clip_by_value(g, -4.0, 4.0), v) for g, v in grads_and_vars]
            return super().apply_gradients(clipped, global_step, name)

    training = LateTraining(Clipping(v1.train.GradientDescentOptimizer(1.0), 0))
    assert training.run() == 0.0
    training.expect(step=1, weights=[0.0, 4.0, 12.0], accepted=1, dropped=0)


def test_variables_before_anything_was_applied_are_those_of_the_wrapped_optimizer(v1_graph):
    inner = v1.train.AdamOptimizer()
    optimizer = drop_stale(0, inner)
    assert optimizer.variables() == []
    weights = v1.get_variable("w", initializer=tf.constant(START))
    inner.minimize(half_square(weights))
    assert optimizer.variables() == inner.variables() != []


def trained_by(optimizer: Any, step: Any) -> Any:
    weights = v1.get_variable("w", initializer=tf.constant(START))
    pairs = optimizer.compute_gradients(half_square(weights))
    return optimizer.apply_gradients(pairs, step)


def variable_names() -> set[str]:
    return {variable.op.name for variable in v1.global_variables()}


def test_no_step_to_apply_to_is_a_value_error_that_leaves_no_variable_behind(v1_graph):
    weights = v1.get_variable("w", initializer=tf.constant(START))
    optimizer = drop_stale(0, v1.train.AdamOptimizer())
    message = r"global_step is None: make one with .*get_or_create_global_step\(\)"
    with pytest.raises(ValueError, match=message):
        optimizer.minimize(half_square(weights))  # There is none in the graph either.
    assert variable_names() == {"w"}
    global_step()
    with pytest.raises(ValueError, match=message):
        optimizer.minimize(half_square(weights))
    pairs = optimizer.compute_gradients(half_square(weights))
    with pytest.raises(ValueError, match=message):
        optimizer.apply_gradients(pairs)
    assert variable_names() == {"global_step", "w"}


def test_step_that_is_no_variable_is_a_value_error(v1_graph):
    global_step()
    with pytest.raises(ValueError, match="Expected global_step to be a variable, got .*make one"):
        trained_by(drop_stale(), tf.constant(3, tf.int64))
    assert variable_names() == {"global_step", "w"}


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(tf.int64, [1]), (tf.int64, [2, 2]), (tf.float32, []), (tf.uint64, []), (tf.int16, [])],
    ids=str,
)
def test_step_of_wrong_dtype_or_shape_is_a_value_error(v1_graph, dtype, shape):
    global_step()
    step = v1.get_variable("step", initializer=tf.zeros(shape, dtype), trainable=False)
    shape_text = ", ".join(map(str, shape))
    with pytest.raises(
        ValueError,
        match=r"Expected global_step to be a scalar of dtype int64 or int32, got 'step:0' of dtype "
        rf"{dtype.name} and shape \({shape_text}.*: make one with",
    ):
        trained_by(drop_stale(), step)
    assert variable_names() == {"global_step", "w", "step"}


def test_step_of_another_dtype_than_the_graphs_is_a_value_error(v1_graph):
    global_step()
    step = v1.get_variable("step", initializer=tf.constant(0, tf.int32), trainable=False)
    with pytest.raises(ValueError, match=r"read, int64; got 'step:0' of dtype int32"):
        trained_by(drop_stale(), step)
    assert variable_names() == {"global_step", "w", "step"}


def test_applying_before_computing_is_a_value_error(v1_graph):
    weights = v1.get_variable("w", initializer=tf.constant(START))
    pairs = [(tf.constant(START), weights)]
    optimizer, step = drop_stale(), global_step()
    with pytest.raises(ValueError, match=r"call compute_gradients\(\) before apply_gradients\(\)"):
        optimizer.apply_gradients(pairs, step)
    with tf.Graph().as_default():
        global_step()
        optimizer.compute_gradients(one_vector(tf.identity)[0])
    with pytest.raises(ValueError, match=r"in the same graph, or call minimize\(\)"):
        optimizer.apply_gradients(pairs, step)
    assert variable_names() == {"global_step", "w"}


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_no_gradients_are_a_value_error(v1_graph, kind):
    step, optimizer = global_step(), drop_stale()
    weights = v1.get_variable("w", initializer=tf.constant(START))
    loss = half_square(weights)
    optimizer.compute_gradients(loss)
    with pytest.raises(ValueError, match="No variables provided."):
        optimizer.apply_gradients(kind([]), step)
    with pytest.raises(ValueError, match=r"No gradients provided for any variable: \[.*'w:0'"):
        optimizer.apply_gradients(kind([(None, weights)]), step)
    assert variable_names() == {"global_step", "w"}


def test_reference_variables_in_control_flow_of_version_2_are_a_type_error():
    message = r"version 2 cannot update reference variables.*'{}'.*disable_control_flow_v2\(\)"
    with switched(resource=False, control_flow=2), tf.Graph().as_default():
        global_step()
        weights = v1.get_variable("w", initializer=tf.constant(START))
        with pytest.raises(TypeError, match=message.format("global_step:0")):
            drop_stale().minimize(half_square(weights), global_step())
        assert variable_names() == {"global_step", "w"}
    with switched(resource=True, control_flow=2), tf.Graph().as_default():
        weights = v1.get_variable("w", initializer=tf.constant(START), use_resource=False)
        with pytest.raises(TypeError, match=message.format("w:0")):
            drop_stale().minimize(half_square(weights), global_step())
        assert variable_names() == {"global_step", "w"}


def test_counts_before_anything_was_applied_are_a_value_error(v1_graph):
    for count in (drop_stale().num_dropped, drop_stale().num_accepted):
        with pytest.raises(
            ValueError, match=r"counted nothing yet: call apply_gradients\(\) before"
        ):
            count()
