"""Tests of GradientAccumulator with gradients that are None, and of variables that change kinds."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from tests.support.absent_gradients import (
    OPTIMIZERS,
    SHAPES,
    TASKS,
    Functions,
    as_tensor,
    expected,
    make_variables,
    micro_batches,
)
from tests.support.gpus import skip_on_gpu
from tf_condacc import GradientAccumulator

v1 = tf.compat.v1
pytestmark = pytest.mark.filterwarnings("ignore:Gradients do not exist")


@pytest.mark.parametrize(
    ("in_function", "kind"),
    [
        *((False, kind) for kind in OPTIMIZERS),
        *((True, kind) for kind in ("decay", "v1")),
        pytest.param(True, "adam", marks=pytest.mark.long),  # A second optimizer of Keras.
    ],
)
def test_none_counts_as_zeros_and_a_variable_without_gradients_is_left_out(in_function, kind):
    variables, optimizer = make_variables(), OPTIMIZERS[kind]()
    accumulator = GradientAccumulator(variables, 4)
    wrap = Functions if in_function else lambda function: function
    apply = wrap(lambda gradients: accumulator.apply_gradients(optimizer, gradients))
    updated = [bool(apply([as_tensor(one) for one in gradients])) for gradients in TASKS]
    assert updated == [False, False, False, True] * 5
    for variable, value in zip(variables, expected(OPTIMIZERS[kind](), TASKS, 4), strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.parametrize("wrap", [lambda function: function, Functions], ids=["eager", "function"])
def test_a_remainder_leaves_out_variables_without_gradients(wrap):
    variables, optimizer = make_variables(), OPTIMIZERS["decay"]()
    accumulator = GradientAccumulator(variables, 4)
    accumulate = wrap(accumulator.accumulate)
    batches = micro_batches([1], [1, 2], [2], [2])
    for start in (0, 2):
        for gradients in batches[start : start + 2]:
            accumulate([as_tensor(one) for one in gradients])
        assert accumulator.apply_remainder(optimizer)
    for variable, value in zip(variables, expected(OPTIMIZERS["decay"](), batches, 2), strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_sessions_leave_out_variables_without_gradients():
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.Variable(tf.ones(shape), use_resource=True) for shape in SHAPES]
        optimizer = OPTIMIZERS["v1"]()
        accumulator = GradientAccumulator(variables, 2)
        steps = {
            absent: accumulator.apply_gradients(
                optimizer, [None if at == absent else tf.ones(s) for at, s in enumerate(SHAPES)]
            )
            for absent in (1, 2)
        }
        session.run(v1.global_variables_initializer())
        for absent in (1, 1, 2, 1):
            session.run(steps[absent])
        values = session.run(variables)
    means = [1.0, 0.5, 0.5]  # Of the second update; the first one had none for position 1.
    step = [0.5 * (0.5 + mean) for mean in means]
    assert values[0].tolist() == [1 - 0.5 - step[0]] * 3
    assert values[1].tolist() == [[1 - 0.5 * means[1]] * 2] * 4
    assert values[2] == 1 - 0.5 - step[2]


def test_take_returns_none_for_a_variable_without_gradients_and_zeros_in_a_function():
    accumulator = GradientAccumulator(make_variables(), 2)
    for take in (accumulator.take, tf.function(accumulator.take)):
        for gradients in micro_batches([1], [1]):
            accumulator.accumulate([as_tensor(one) for one in gradients])
        taken = take()
        assert taken[0].shape == [3]
        if take == accumulator.take:
            assert taken[1] is None
        else:
            assert taken[1].numpy().tolist() == [[0.0, 0.0]] * 4


def test_a_micro_batch_that_is_skipped_has_no_absences_either():
    accumulator = GradientAccumulator([tf.Variable(0.0), tf.Variable(0.0)], 2, skip_non_finite=True)
    accumulator.accumulate([tf.constant(np.nan), None])
    accumulator.accumulate([tf.constant(1.0), None])
    accumulator.accumulate([tf.constant(1.0), tf.constant(1.0)])
    assert [float(one) for one in accumulator.take()] == [1.0, 0.5]
    accumulator.accumulate([tf.constant(1.0), None])
    accumulator.reset()
    for _ in range(2):
        accumulator.accumulate([tf.constant(1.0), tf.constant(2.0)])
    assert [float(one) for one in accumulator.take()] == [1.0, 2.0]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns those of the package: TensorFlow reports how often it has traced functions."""
    return [each.getMessage() for each in caplog.records if each.name == "tf_condacc"]


def test_a_set_of_nones_that_a_traced_function_does_not_know_is_reported_once(caplog):
    variables, optimizer = make_variables(), OPTIMIZERS["v1"]()
    accumulator = GradientAccumulator(variables, 2)
    apply = Functions(lambda gradients: accumulator.apply_gradients(optimizer, gradients))
    with caplog.at_level(logging.WARNING, "tf_condacc"):
        apply([tf.ones([3]), None, None])
        apply([None, tf.ones([4, 2]), tf.constant(1.0)])
        apply([tf.ones([3]), tf.ones([4, 2]), tf.constant(1.0)])
        assert not messages(caplog)
        apply([tf.ones([3]), None, tf.constant(1.0)])
        apply([tf.ones([3]), tf.ones([4, 2]), None])
    assert len(messages(caplog)) == 1
    assert "They count as zeros in a function that was traced before" in messages(caplog)[0]
    assert f"the gradients of the variables {variables[1].name} are None" in messages(caplog)[0]


def test_functions_that_were_traced_before_the_first_none_count_the_next_ones_anew():
    variables = [tf.Variable(0.0), tf.Variable(0.0)]
    accumulator = GradientAccumulator(variables, 2)
    one, optimizer = tf.constant(1.0), v1.train.GradientDescentOptimizer(1.0)
    take = tf.function(accumulator.take)
    remainder = tf.function(lambda: accumulator.apply_remainder(optimizer))
    for use in (take, remainder):
        for _ in range(2):
            accumulator.accumulate([one, one])
        use()
    for use in (take, remainder, accumulator.take):
        accumulator.accumulate([one, None])
        accumulator.accumulate([one, one])
        taken = use()
    assert [float(each) for each in taken] == [1.0, 0.5]
    assert [float(each) for each in variables] == [-2.0, -1.5]


def test_more_sets_of_nones_than_branches_are_reported(caplog):
    variables = [tf.Variable(0.0) for _ in range(9)]
    accumulator = GradientAccumulator(variables, 8)
    optimizer = v1.train.GradientDescentOptimizer(1.0)

    def apply(expert: int) -> None:
        gradients = [tf.constant(1.0) if at in (0, expert) else None for at in range(9)]
        accumulator.apply_gradients(optimizer, gradients)

    with caplog.at_level(logging.WARNING, "tf_condacc"):
        for expert in range(1, 9):
            apply(expert)
        assert not messages(caplog)
        tf.function(apply)(1)
    assert len(messages(caplog)) == 1
    assert "a function, which has no branch for each of so many sets" in messages(caplog)[0]
    assert messages(caplog)[0].count("Variable") == 4  # Of seven.


@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_that_a_variable_does_not_have_is_refused_after_dense_gradients(row):
    accumulator = GradientAccumulator(
        [tf.Variable(tf.zeros([2])), tf.Variable(tf.zeros([4, 2]))], 2
    )
    accumulator.accumulate([tf.ones([2]), tf.ones([4, 2])])
    wrong = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([row]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="'gradient_accumulator/Variable.*'"):
        accumulator.accumulate([tf.ones([2]), wrong])
    right = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]))  # It has no dense_shape.
    accumulator.accumulate([tf.ones([2]), right])
    first, second = accumulator.take()
    assert first.numpy().tolist() == [1.0, 1.0]
    assert second.numpy()[:, 0].tolist() == [0.5, 1.5, 0.5, 0.5]


@pytest.mark.parametrize("kinds", ["sd", "ds", "nsd", "nds", "nd", "ns"])
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_a_variable_may_have_dense_sparse_and_no_gradients_in_turn(kinds, in_function):
    accumulator = GradientAccumulator([tf.Variable(tf.zeros([4, 2])), tf.Variable(0.0)], len(kinds))
    wrap = tf.function if in_function else lambda function: function
    total = np.zeros([4, 2])
    for kind in kinds:
        if kind == "s":
            gradient = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([4, 2]))
            total[1] += 2
        elif kind == "d":
            gradient = tf.reshape(tf.range(8.0), [4, 2])
            total += gradient.numpy()
        else:
            gradient = None
        wrap(lambda gradient=gradient: accumulator.accumulate([gradient, tf.constant(1.0)]))()
    taken = wrap(accumulator.take)()[0]
    assert isinstance(taken, tf.IndexedSlices) == (kinds in ("sd", "nsd", "nds", "ns"))
    np.testing.assert_allclose(tf.convert_to_tensor(taken), total / len(kinds), rtol=1e-6)


@pytest.mark.parametrize("kinds", ["dd", "ss", "sd", "dn"])
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_gradients_of_a_variable_that_comes_twice_are_added_up(kinds, in_function):
    if kinds == "ss":
        skip_on_gpu("TensorFlow updates rows of momentums on a CPU only")
    variable = tf.Variable(tf.zeros([4, 2]))
    accumulator = GradientAccumulator([variable, variable], 1)
    wrap = tf.function if in_function else lambda function: function
    gradients = {
        "d": tf.ones([4, 2]),
        "s": tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([4, 2])),
        "n": None,
    }
    optimizer = v1.train.MomentumOptimizer(1.0, 0.5)
    both = [gradients[kind] for kind in kinds]
    wrap(lambda: accumulator.apply_gradients(optimizer, both, global_clipnorm=1000.0))()
    expected_sum = {"dd": [2, 2, 2, 2], "ss": [0, 2, 0, 0], "sd": [1, 2, 1, 1], "dn": [1] * 4}
    assert (-variable.numpy()[:, 0]).tolist() == expected_sum[kinds]
    assert len(accumulator.variables) == 1
