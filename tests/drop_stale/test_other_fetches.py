"""Tests of other operations on the loss's variables, which work as without the optimizer."""

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
    new_session,
)

v1 = tf.compat.v1


def test_variables_and_the_loss_can_be_fetched_alone_and_together_with_the_training(v1_graph):
    training = LateTraining()
    fetches = [training.loss, training.weights, tf.identity(training.weights)]
    for _ in range(3):
        loss, *weights = training.value(fetches)
        assert loss == np.sum(np.square(START)) / 2.0
        np.testing.assert_array_equal(weights, [START] * 2)
    training.expect(step=0, weights=START, accepted=0, dropped=0)
    assert training.value([*fetches, training.train])[0] == loss
    training.expect(step=1, weights=np.divide(START, 2.0), accepted=1, dropped=0)


def test_variables_can_be_read_before_the_step_is_initialized_but_not_the_loss(v1_graph):
    """The loss cannot be computed yet, since its variables are read after the step."""
    training = LateTraining()
    with new_session() as session:
        session.run(training.weights.initializer)
        np.testing.assert_array_equal(session.run(training.weights), START)
        with pytest.raises(tf.errors.FailedPreconditionError, match="global_step"):
            session.run(training.loss)
        session.run(training.step.initializer)
        assert session.run(training.loss) == np.sum(np.square(START)) / 2.0


def test_variables_initialized_from_those_of_the_loss(v1_graph):
    """The variables are initialized in the order that programs with pretrained weights use."""
    weights = v1.get_variable("w", initializer=tf.constant(START))
    initial = weights.read_value() * 2.0
    copy = v1.get_variable("copy", initializer=initial, trainable=False)
    step = global_step()
    drop_stale().minimize(half_square(tf.convert_to_tensor(weights)), step, [weights])
    with v1.Session() as session:
        session.run(weights.initializer)
        session.run(copy.initializer)
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(copy), np.multiply(START, 2.0))


def test_uninitialized_variables_are_reported(v1_graph):
    training = LateTraining()
    with new_session() as session:
        report = v1.report_uninitialized_variables()
        assert set(session.run(report)) == {b"w", b"global_step", b"stale_counter"}
        session.run(v1.global_variables_initializer())
        assert list(session.run(report)) == []
        assert session.run(training.train) == 0.0


@every_switches
def test_training_before_the_step_is_initialized_fails_and_leaves_nothing_behind(switches):
    training = LateTraining()
    with new_session() as session:
        session.run([v.initializer for v in v1.global_variables() if v is not training.step])
        with pytest.raises(tf.errors.FailedPreconditionError, match="global_step"):
            session.run(training.train)
        session.run(training.step.initializer)
        assert session.run(training.train) == 0.0
        assert session.run([training.step, training.optimizer.num_accepted()]) == [1, 1]


def test_optimizer_built_after_the_graph_has_run(v1_graph):
    """TensorFlow warns that a session does not see changes of operations that it has run."""
    weights, step = v1.get_variable("w", initializer=tf.constant(START)), global_step()
    loss = half_square(tf.convert_to_tensor(weights))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(loss)
        train = drop_stale().minimize(loss, step)
        session.run(v1.global_variables_initializer())
        assert session.run(train) == 0.0
        np.testing.assert_array_equal(session.run(weights), np.divide(START, 2.0))


def test_frozen_graph_for_predictions_needs_standard_operations_only(v1_graph):
    training = LateTraining()
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        session.run(training.train)
        frozen = v1.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), [training.loss.op.name]
        )
    assert not [node.op for node in frozen.node if "Condacc" in node.op or "Var" in node.op]
    with tf.Graph().as_default():
        (loss,) = tf.import_graph_def(frozen, return_elements=[training.loss.name])
        with new_session() as session:
            assert session.run(loss) == np.sum(np.square(START)) / 8.0


@every_switches
def test_graph_can_be_exported_and_imported(switches):
    training = LateTraining()
    init = v1.global_variables_initializer().name
    definition = v1.get_default_graph().as_graph_def()
    fetches = [training.train.name, "w:0" if not switches.resource else "w/Read/ReadVariableOp:0"]
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with new_session() as session:
            session.run(init)
            assert session.run(fetches[0]) == 0.0
            np.testing.assert_array_equal(session.run(fetches[1]), np.divide(START, 2.0))
