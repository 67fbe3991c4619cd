"""Tests of several optimizers, graphs and updates beside each other."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    Interlude,
    LateTraining,
    drop_stale,
    global_step,
    half_square,
    stale_counter,
)

v1 = tf.compat.v1


def counter_names() -> list[str]:
    return [v.op.name for v in v1.global_variables() if "stale_counter" in v.op.name]


def test_two_optimizers_decide_and_count_on_their_own(v1_graph):
    """Two models share one step, as GANs are trained. They have other limits."""
    training = LateTraining()
    other, interlude = v1.get_variable("other", initializer=tf.constant(START)), Interlude()
    optimizer = drop_stale(1)
    loss = half_square(interlude(tf.convert_to_tensor(other)))
    other_train = optimizer.minimize(loss, training.step, [other])
    other_counts = [optimizer.num_accepted(), optimizer.num_dropped()]
    assert counter_names() == ["stale_counter", "stale_counter_1"]
    # If the other player makes a step during one's own, one's own becomes stale.
    interlude.action = training.run
    assert training.session.run(other_train) == 0.0
    interlude.action = lambda: None
    training.interlude.action = lambda: training.session.run(other_train)
    assert training.session.run(training.train) == 1.0
    assert training.value(other_counts) == [2, 0]
    assert training.value([stale_counter(), stale_counter("stale_counter_1:0")]) == [1.0, 0.0]
    training.expect(step=3, weights=np.divide(START, 2.0), accepted=1, dropped=1)
    np.testing.assert_array_equal(training.value(other), np.divide(START, 4.0))


def test_one_optimizer_may_apply_several_times(v1_graph):
    training = LateTraining()
    other = v1.get_variable("other", initializer=tf.constant([2.0]))
    second = training.optimizer.minimize(half_square(other), training.step, [other])
    assert counter_names() == ["stale_counter"]
    assert training.run(late_by=1) == 1.0
    assert training.session.run(second) == 1.0
    assert training.run(late_by=1) == 2.0
    training.expect(step=3, weights=START, accepted=1, dropped=2)
    assert training.value(other) == [1.0]


def reused(optimizer: Any, weights: Any, step: Any) -> Any:
    with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
        return optimizer.minimize(half_square(weights), step)


def test_optimizers_of_a_scope_that_is_reused_share_one_counter(v1_graph):
    step = global_step()
    weights = v1.get_variable("w", initializer=tf.constant(START))
    optimizers = [drop_stale(-1), drop_stale(-1)]
    trains = [reused(optimizer, weights, step) for optimizer in optimizers]
    assert counter_names() == ["shared/stale_counter"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert [session.run(train) for train in (*trains, trains[0])] == [1.0, 2.0, 3.0]
        assert session.run([optimizer.num_dropped() for optimizer in optimizers]) == [3, 3]


def test_one_optimizer_counts_each_graph_on_its_own(v1_graph):
    optimizer = drop_stale()
    first = LateTraining(optimizer)
    assert first.run(late_by=1) == 1.0
    with tf.Graph().as_default():
        second = LateTraining(optimizer)
        assert [second.run(late_by) for late_by in (1, 1, 0)] == [1.0, 2.0, 2.0]
        assert second.counts() == (1, 2)
        assert {v.graph for v in optimizer.variables()} == {v1.get_default_graph()}
    assert first.counts() == (0, 1)
    assert {v.graph for v in optimizer.variables()} == {v1.get_default_graph()}


def test_sessions_of_one_graph_that_share_nothing_count_on_their_own(v1_graph):
    training = LateTraining()
    training.run(late_by=1)
    first, training.session = training.session, v1.Session()
    training.session.run(v1.global_variables_initializer())
    assert training.counts() == (0, 0)
    training.run()
    training.expect(step=1, weights=np.divide(START, 2.0), accepted=1, dropped=0)
    training.session = first
    training.expect(step=1, weights=START, accepted=0, dropped=1)


def test_an_optimizer_does_not_keep_graphs_alive_that_it_only_computed_in():
    optimizer = drop_stale()
    with tf.Graph().as_default() as graph:
        global_step()
        weights = v1.get_variable("w", initializer=tf.constant(START))
        optimizer.compute_gradients(half_square(weights))
        gone = weakref.ref(graph)
    del graph, weights
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "made_again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))]
)
def test_a_copy_counts_on_its_own(made_again):
    """Estimators copy their parameters, and federated clients the objects of their server."""
    step, weights = tf.Variable(0, dtype=tf.int64), tf.Variable(1.0)
    original = drop_stale(0)
    original.minimize(lambda: weights * weights, global_step=step)
    copied = made_again(original)
    for _ in range(2):
        copied.minimize(lambda: weights * weights, global_step=step)
    assert [int(each.num_accepted()) for each in (original, copied)] == [1, 2]
    assert int(step) == 3
