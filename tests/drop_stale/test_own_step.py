"""Tests of step variables that the program made itself, under the usual name or another."""

from __future__ import annotations

import functools
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
    compute_clip_and_apply,
    drop_stale,
    every_switches,
    half_square,
    minimize,
    new_session,
    one_vector,
    own_step,
    switched,
)

v1 = tf.compat.v1
HALVED, QUARTERED = np.divide(START, 2.0), np.divide(START, 4.0)


def of_get_variable(name: str, dtype: tf.DType, **kwargs: Any) -> Any:
    zeros = v1.zeros_initializer()
    return v1.get_variable(name, [], dtype=dtype, initializer=zeros, trainable=False, **kwargs)


def of_variable(name: str, dtype: tf.DType) -> Any:
    """Makes a variable that is trainable, because this is the default."""
    return tf.Variable(tf.constant(0, dtype), name=name)


def of_variable_of_v1(name: str, dtype: tf.DType) -> Any:
    return v1.Variable(0, name=name, dtype=dtype, trainable=False)


MAKERS = [of_get_variable, of_variable, of_variable_of_v1]
WAYS = [minimize, compute_clip_and_apply]
by_name = functools.partial(pytest.mark.parametrize, ids=lambda value: value.__name__)
every_way = by_name("apply", WAYS)
every_dtype = pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
# `make test` runs each name and each data type, and `make test-long` runs all pairs.
NAMES_AND_DTYPES = [
    ("global_step", tf.int64),
    ("my_step", tf.int32),
    pytest.param("global_step", tf.int32, marks=pytest.mark.long),
    pytest.param("my_step", tf.int64, marks=pytest.mark.long),
]


@every_way
@pytest.mark.parametrize(("name", "dtype"), NAMES_AND_DTYPES)
@by_name("maker", MAKERS)
def test_step_that_the_program_made_itself(v1_graph, maker, name, dtype, apply):
    def make_step(step_dtype: tf.DType) -> Any:
        return maker(name, step_dtype)

    training = LateTraining(step_dtype=dtype, make_step=make_step, apply=apply)
    assert training.step.dtype.base_dtype == dtype
    assert_read_after_local_step(training.loss, training.weights)
    training.expect_late_updates_to_be_dropped(late_by=2)
    training.close()


@every_switches
@pytest.mark.parametrize("collections", [["mine"], []], ids=str)
def test_step_in_none_of_the_usual_collections(switches, collections):
    def make_step(dtype: tf.DType) -> Any:
        return of_get_variable("global_step", dtype, collections=collections)

    training = LateTraining(make_step=make_step)
    training.session.run(training.step.initializer)
    training.expect_late_updates_to_be_dropped(late_by=2)
    training.close()


@every_way
def test_loss_that_is_a_function(v1_graph, apply):
    step, interlude = own_step(), Interlude()
    weights = v1.get_variable("w", initializer=tf.constant(START))
    losses = []

    def loss() -> tf.Tensor:
        losses.append(half_square(interlude(tf.convert_to_tensor(weights))))
        return losses[-1]

    train = apply(drop_stale(), loss, step, [weights])
    assert_read_after_local_step(losses[0], weights)
    assert_second_update_is_dropped(train, step, interlude, weights)


@every_way
def test_nested_optimizers(v1_graph, apply):
    training = LateTraining(drop_stale(5, drop_stale(2)), make_step=own_step, apply=apply)
    assert [training.run(late_by) for late_by in (0, 4, 9)] == [0.0, 0.0, 1.0]
    assert training.value(training.step) == 14
    np.testing.assert_array_equal(training.value(training.weights), HALVED)


def test_name_and_scope_of_a_local_step_that_is_read_late_are_those_of_the_computation(v1_graph):
    step = own_step()
    loss, _ = one_vector(Interlude())
    optimizer = drop_stale()
    with tf.name_scope("worker"):
        pairs = optimizer.compute_gradients(loss)
    with tf.name_scope("update"):
        optimizer.apply_gradients(pairs, step)
    v1.get_default_graph().get_operation_by_name("worker/local_step")


def test_gradients_may_be_applied_to_one_step_and_then_to_another(v1_graph):
    """Each step variable has a local step of its own."""
    interlude = Interlude()
    loss, (weights,) = one_vector(interlude)
    first, second = of_get_variable("first", tf.int32), of_get_variable("second", tf.int64)
    optimizer = drop_stale()
    pairs = optimizer.compute_gradients(loss)
    trains = [optimizer.apply_gradients(pairs, step) for step in (first, second, second)]
    counts = [optimizer.num_accepted(), optimizer.num_dropped()]
    advance = v1.assign_add(second, 1)
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(trains[0]) == 0.0
        assert session.run(trains[1]) == 0.0
        assert session.run([first, second]) == [1, 1]
        interlude.action = lambda: session.run(advance)
        assert session.run(trains[0]) == 0.0
        assert session.run(trains[2]) == 1.0
        assert session.run([first, second, *counts]) == [2, 3, 3, 1]
        np.testing.assert_array_equal(session.run(weights), np.divide(START, 8.0))


@every_switches
def test_step_of_the_usual_name_counts_also_if_another_one_is_applied_to(switches):
    """As in the original, the local step is the graph's own, and is compared with the one given."""
    graphs_own = of_get_variable("global_step", tf.int64)
    training = LateTraining(make_step=own_step)
    assert training.run() == 0.0
    # The step that was passed is 1 now, and the graph's global step is still 0.
    assert training.run() == 1.0
    training.session.run(v1.assign(graphs_own, 1))
    assert training.run() == 1.0
    training.expect(step=2, weights=QUARTERED, accepted=2, dropped=1)


@every_switches
@pytest.mark.parametrize("dtype", [tf.float32, tf.bool])
def test_variable_of_the_usual_name_that_is_no_integer_is_a_type_error(switches, dtype):
    of_get_variable("global_step", dtype)
    with pytest.raises(TypeError, match="global_step.*integer"):
        drop_stale().compute_gradients(one_vector(Interlude())[0])


def test_a_placeholder_and_a_variable_in_a_scope_are_not_the_global_step(v1_graph):
    v1.placeholder(tf.int64, [], name="global_step")
    with v1.variable_scope("scope"):
        of_get_variable("global_step", tf.int32)
    LateTraining(make_step=own_step).expect_late_updates_to_be_dropped(late_by=2)


@every_dtype
def test_function_finds_the_step_of_the_graph_around_it(v1_graph, dtype):
    step = of_get_variable("global_step", dtype)
    weights = v1.get_variable("w", initializer=tf.constant(START))
    interlude, optimizer = Interlude(), drop_stale()

    @tf.function
    def train() -> tf.Tensor:
        def loss() -> tf.Tensor:
            return half_square(interlude(weights.read_value()))

        return optimizer.apply_gradients(optimizer.compute_gradients(loss, [weights]), step)

    result, advance = train(), v1.assign_add(step, 1)
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(result) == 0.0
        interlude.action = lambda: session.run(advance)
        assert session.run(result) == 1.0
        assert session.run(step) == 2
        np.testing.assert_array_equal(session.run(weights), HALVED)


@every_dtype
def test_monitored_training_session_counts_a_step_of_the_usual_name(tmp_path, dtype):
    """TensorFlow's hooks recognize such a step only if it is a reference variable."""
    with switched(resource=False, control_flow=1), tf.Graph().as_default():
        step = of_get_variable("global_step", dtype)
        loss, (weights,) = one_vector(Interlude())
        train = drop_stale().minimize(loss, step, [weights])
        hooks = [v1.train.StopAtStepHook(last_step=3)]
        with v1.train.MonitoredTrainingSession(
            hooks=hooks, checkpoint_dir=str(tmp_path), save_checkpoint_steps=1
        ) as session:
            results = []
            while not session.should_stop():
                results.append(session.run([train, weights])[0])
        assert results == [0.0, 0.0, 0.0]
        assert tf.train.load_variable(str(tmp_path), "global_step") == 3
        np.testing.assert_array_equal(
            tf.train.load_variable(str(tmp_path), "w"), np.divide(START, 8.0)
        )


@pytest.mark.parametrize(("name", "dtype"), NAMES_AND_DTYPES)
def test_monitored_training_session_trains_with_any_step(v1_graph, name, dtype):
    def make_step(step_dtype: tf.DType) -> Any:
        return of_get_variable(name, step_dtype)

    training = LateTraining(step_dtype=dtype, make_step=make_step)
    config = v1.ConfigProto(inter_op_parallelism_threads=4)
    with v1.train.MonitoredTrainingSession(config=config) as session:
        training.session = session
        assert [training.run(late_by) for late_by in (0, 2, 0)] == [0.0, 1.0, 1.0]
        assert training.value(training.step) == 4
        np.testing.assert_array_equal(training.value(training.weights), QUARTERED)
