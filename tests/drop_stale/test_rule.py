"""Tests of the rule by which updates are dropped, and of the effect of dropping."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    LateTraining,
    drop_stale,
    every_switches,
    global_step,
    half_square,
)

v1 = tf.compat.v1

HALVED = np.divide(START, 2.0)
QUARTERED = np.divide(START, 4.0)


@pytest.mark.parametrize("limit", [0, 1, 3, 10**12])
def test_update_is_dropped_iff_it_is_later_than_the_limit(v1_graph, limit):
    training = LateTraining(drop_stale(limit))
    training.run(late_by=limit)
    training.expect(step=limit + 1, weights=HALVED, accepted=1, dropped=0)
    training.run(late_by=limit + 1)
    training.expect(step=2 * limit + 2, weights=HALVED, accepted=1, dropped=1)


@every_switches
@pytest.mark.parametrize("dtype", [tf.int64, tf.int32])
def test_step_may_be_of_either_integer_dtype(switches, dtype):
    training = LateTraining(drop_stale(1), step_dtype=dtype)
    assert [training.run(late_by=late) for late in (0, 1, 2)] == [0.0, 0.0, 1.0]
    assert training.value(training.step).dtype == dtype.as_numpy_dtype
    training.expect(step=5, weights=QUARTERED, accepted=2, dropped=1)


@pytest.mark.parametrize("dtype", [tf.int64, tf.int32])
def test_limit_may_be_a_tensor_that_is_fed(v1_graph, dtype):
    limit = v1.placeholder(dtype, [])
    training = LateTraining(drop_stale(limit), step_dtype=dtype)
    for fed, late_by, dropped in ((1, 1, 0), (0, 1, 1), (-1, 0, 2), (3, 3, 2)):
        assert training.run(late_by, feed={limit: fed}) == dropped
    training.expect(step=7, weights=QUARTERED, accepted=2, dropped=2)


def test_limit_that_is_no_scalar_when_run_is_refused_and_changes_nothing(v1_graph):
    limit = v1.placeholder(tf.int64, None)
    training = LateTraining(drop_stale(limit))
    for fed in ([0], [0, 0], []):
        with pytest.raises(tf.errors.InvalidArgumentError, match="limit.*scalar"):
            training.run(feed={limit: fed})
    training.expect(step=0, weights=START, accepted=0, dropped=0)
    assert training.run(feed={limit: 0}) == 0.0


@pytest.mark.parametrize(
    "limit",
    [1.5, 1.0, "1", tf.int32, tf.float32],
    ids=["1.5", "1.0", "text", "int32 tensor", "float32 tensor"],
)
def test_limit_that_is_no_integer_of_the_step_dtype_is_a_type_error(v1_graph, limit):
    if isinstance(limit, tf.DType):
        limit = tf.constant(1, limit)
    optimizer = drop_stale(limit)  # As in the original, the constructor checks nothing.
    weights = v1.get_variable("w", initializer=tf.constant(START))
    with pytest.raises(TypeError, match="'DropStaleGradient' expects staleness to be an integer"):
        optimizer.minimize(half_square(weights), global_step())
    assert {v.op.name for v in v1.global_variables()} == {"w", "global_step"}


@every_switches
def test_decision_is_made_when_the_last_gradient_is_ready(switches):
    training = LateTraining()
    gradients_and_variables = training.optimizer.compute_gradients(training.loss)
    late = v1.placeholder(tf.int64, [])
    with tf.control_dependencies([gradients_and_variables[0][0]]):
        advanced = v1.assign_add(training.step, late)
    with tf.control_dependencies([advanced]):
        gradients_and_variables = [(tf.identity(g), v) for g, v in gradients_and_variables]
    train = training.optimizer.apply_gradients(gradients_and_variables, training.step)
    assert training.session.run(train, {late: 1}) == 1.0
    assert training.session.run(train, {late: 0}) == 1.0
    training.expect(step=2, weights=HALVED, accepted=1, dropped=1)
