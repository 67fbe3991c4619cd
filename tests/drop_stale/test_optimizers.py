"""Tests of wrapped optimizers: accepted updates equal those of the optimizer alone, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    INNER,
    START,
    Interlude,
    LateTraining,
    drop_stale,
    every_inner_and_switches,
    every_switches,
    half_square,
)

v1 = tf.compat.v1
every_inner = pytest.mark.parametrize("inner", list(INNER))
LATE_BY = [0, 1, 0, 0, 3, 1, 0, 0]


def two_tables(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    """A model with a dense gradient, a sparse one with a repeated row, and one that is None."""
    weights = v1.get_variable("w", initializer=tf.constant(START))
    rows = v1.get_variable("rows", initializer=tf.reshape(tf.range(8.0) - 3.0, [4, 2]))
    unused = v1.get_variable("unused", initializer=tf.constant([5.0]))
    looked_up = tf.reshape(tf.gather(rows, [2, 0, 2]), [-1])
    return half_square(interlude(tf.concat([weights, looked_up], 0))), [weights, unused, rows]


def state(training: LateTraining, inner: str) -> list[np.ndarray]:
    """Returns the values of a model's variables and of their slots."""
    weights, unused, rows = training.variables
    slots = [
        training.optimizer.get_slot(variable, name)
        for name in INNER[inner].slots
        for variable in (weights, rows)
    ]
    return training.value([weights, unused, rows, *slots])


def states_alone(inner: str, num_steps: int) -> list[list[np.ndarray]]:
    """Returns the states before and after each step of the wrapped optimizer alone."""
    with tf.Graph().as_default():
        training = LateTraining(INNER[inner].make(), two_tables)
        states = [state(training, inner)]
        for _ in range(num_steps):
            training.run()
            states.append(state(training, inner))
    return states


def assert_equal(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@every_inner_and_switches
def test_accepted_updates_are_those_of_the_wrapped_optimizer_alone(switches, inner):
    alone = states_alone(inner, LATE_BY.count(0))
    training = LateTraining(drop_stale(0, INNER[inner].make()), two_tables)
    accepted = 0
    for late_by in LATE_BY:
        training.run(late_by)
        accepted += late_by == 0
        assert_equal(state(training, inner), alone[accepted])
    assert training.counts() == (5, 3)
    assert not np.array_equal(alone[0][0], alone[5][0])
    assert not np.array_equal(alone[0][2], alone[5][2])


@every_inner_and_switches
def test_variables_have_the_names_and_places_that_they_had(switches, inner):
    recorded = INNER[inner]
    training = LateTraining(drop_stale(0, recorded.make()))
    slots = [f"w/{suffix}" for suffix in recorded.slots.values()]
    others = recorded.others[switches.control_flow]
    made = v1.global_variables()
    assert {v.op.name for v in made} == {"w", "global_step", "stale_counter", *slots, *others}
    assert all(v.op._get_control_flow_context() is None for v in made)
    assert {v.op.name for v in training.optimizer.variables()} == {"stale_counter", *slots, *others}


@every_inner
def test_slots_are_those_of_the_wrapped_optimizer(v1_graph, inner):
    optimizer = INNER[inner].make()
    training = LateTraining(drop_stale(0, optimizer))
    assert training.optimizer.get_slot_names() == sorted(INNER[inner].slots)
    assert training.optimizer.get_slot_names() == optimizer.get_slot_names()
    for name, suffix in INNER[inner].slots.items():
        slot = training.optimizer.get_slot(training.weights, name)
        assert slot is optimizer.get_slot(training.weights, name)
        assert slot.op.name == f"w/{suffix}"
    assert training.optimizer.get_slot(training.weights, "none of them") is None


def test_gradients_and_variables_are_those_of_the_wrapped_optimizer(v1_graph):
    training = LateTraining(model=two_tables)
    pairs = training.optimizer.compute_gradients(training.loss, var_list=training.variables)
    assert [variable for _, variable in pairs] == training.variables
    dense, none, sparse = (gradient for gradient, _ in pairs)
    assert (type(sparse), none) == (tf.IndexedSlices, None)
    got, indices, values = training.value([dense, sparse.indices, sparse.values])
    np.testing.assert_array_equal(got, START)
    np.testing.assert_array_equal(indices, [2, 0, 2])
    np.testing.assert_array_equal(values, [[1.0, 2.0], [-3.0, -2.0], [1.0, 2.0]])


def test_arguments_of_compute_gradients_reach_the_wrapped_optimizer(v1_graph):
    training = LateTraining(model=two_tables)
    weights = training.variables[0]
    pairs = training.optimizer.compute_gradients(
        training.loss,
        [weights],
        v1.train.Optimizer.GATE_GRAPH,
        aggregation_method=v1.AggregationMethod.ADD_N,
        grad_loss=tf.constant(2.0),
    )
    ((gradient, variable),) = pairs
    assert variable is weights
    np.testing.assert_array_equal(training.value(gradient), 2.0 * np.array(START))


def test_gradients_may_be_changed_before_they_are_applied(v1_graph):
    training = LateTraining(model=two_tables)
    pairs = training.optimizer.compute_gradients(training.loss, var_list=training.variables)
    changed = [
        (gradient if gradient is None else tf.convert_to_tensor(gradient) * 2.0, variable)
        for gradient, variable in pairs
    ]
    training.run()
    train = training.optimizer.apply_gradients(changed, training.step)
    training.session.run(train)
    np.testing.assert_array_equal(training.value(training.weights), [0.0, 0.0, 0.0])


@every_switches
@pytest.mark.parametrize("sparse_first", [False, True])
def test_decision_waits_for_sparse_gradients_as_for_dense_ones(switches, sparse_first):
    training = LateTraining(model=two_tables)
    weights, _, rows = training.variables
    pairs = training.optimizer.compute_gradients(training.loss, [weights, rows])
    (dense, _), (sparse, _) = pairs
    late_by = v1.placeholder(tf.int64, [])
    with tf.control_dependencies([dense, sparse.values]):
        advanced = v1.assign_add(training.step, late_by)
    with tf.control_dependencies([advanced]):
        delayed = tf.IndexedSlices(tf.identity(sparse.values), sparse.indices, sparse.dense_shape)
    pairs = [(delayed, rows), (dense, weights)] if sparse_first else [pairs[0], (delayed, rows)]
    train = training.optimizer.apply_gradients(pairs, training.step)
    assert training.session.run(train, {late_by: 1}) == 1.0
    assert training.session.run(train, {late_by: 0}) == 1.0
    assert training.value(training.step) == 2


def test_name_is_given_to_the_wrapped_optimizers_operation(v1_graph):
    training = LateTraining()
    pairs = training.optimizer.compute_gradients(training.loss)
    training.optimizer.apply_gradients(pairs, training.step, name="my_update")
    names = {op.name for op in v1_graph.get_operations()}
    assert any(name.split("/")[-1] == "my_update" for name in names)
