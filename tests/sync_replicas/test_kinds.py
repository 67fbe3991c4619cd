"""Tests of kinds of variables, steps and gradients, compared with one process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.sync_replicas_log import check_weights
from tests.support.sync_replicas_program import monitored
from tests.sync_replicas.training import OneProcess

v1 = tf.compat.v1
EMBEDDING = np.arange(12, dtype=np.float32).reshape(6, 2) / 8
BATCH = [[0, 3, 3, 5], [3, 1, 0, 0]]  # Rows that two workers look up.


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_steps_of_both_dtypes_and_variables_of_both_kinds(training, use_resource, dtype):
    run = training(OneProcess(), 2, 1, use_resource=use_resource, step_dtype=dtype)
    run.start()
    for _ in range(6):
        run.step(0)
    run.await_state(lambda state: state.round >= 4)
    assert run.values(lambda model: model.step) == 3
    weights = run.models[0].weights(run.sessions[0])
    check_weights(run.log.events, 2, weights)


def train_in_rounds(make, rounds: int = 3, workers: int = 2):
    """Trains one worker that brings all gradients of a round, one after the other.

    `make(worker)` returns the loss of one worker's part of the batch and the variables.
    """
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        which = v1.placeholder(tf.int32, [])
        loss, variables, configure, averages = make(which)
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(0.5), workers, 1, variable_averages=averages
        )
        optimizer.configure(**configure)
        train = optimizer.minimize(loss, step)
        averaged = [averages.average(v) for v in variables] if averages else []
        with monitored(optimizer) as session:
            for i in range(rounds * workers):
                session.run(train, {which: i % workers})
            while session.run(step) < rounds:
                pass
            return session.run([variables, averaged])


def alone(loss_of, variables_of, rounds: int = 3):
    """Trains the mean of both workers' losses in one process."""
    with tf.Graph().as_default():
        variables = variables_of()
        loss = (loss_of(variables, tf.constant(0)) + loss_of(variables, tf.constant(1))) / 2
        train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(rounds):
                session.run(train)
            return session.run(variables)


def dense_loss(variables, which):
    inputs = tf.gather(tf.constant([[1.0, 2.0], [-0.5, 0.25]]), which)
    return tf.square(tf.reduce_sum(variables[0] * inputs) - 1.0)


def dense_variables():
    return [v1.get_variable("w", initializer=[0.5, -0.5])]


def sparse_loss(variables, which):
    rows = tf.nn.embedding_lookup(variables[0], tf.gather(tf.constant(BATCH), which))
    return tf.reduce_sum(tf.square(rows))


def third_of_sparse_loss(variables, which):
    """A loss whose gradients are not exact in few bits."""
    return sparse_loss(variables, which) / 3


def sparse_variables():
    return [v1.get_variable("e", initializer=EMBEDDING)]


def in_rounds(loss_of, variables_of, **configure):
    def make(which):
        variables = variables_of()
        return loss_of(variables, which), variables, configure, None

    return train_in_rounds(make)[0]


def test_dense_weights_are_those_of_one_process_with_the_whole_batch():
    together = in_rounds(dense_loss, dense_variables)
    np.testing.assert_allclose(together, alone(dense_loss, dense_variables), rtol=1e-6)


@pytest.mark.parametrize("dtype, tolerance", [(tf.bfloat16, 2e-2), (tf.float16, 2e-3)])
@pytest.mark.parametrize(
    "loss_of, variables_of",
    [(dense_loss, dense_variables), (third_of_sparse_loss, sparse_variables)],
)
def test_gradients_may_travel_in_half_as_many_bytes(loss_of, variables_of, dtype, tolerance):
    expected = alone(loss_of, variables_of)
    together = in_rounds(
        loss_of, variables_of, sparse_reduction="GLOBAL_MEAN", transport_dtype=dtype
    )
    np.testing.assert_allclose(together, expected, rtol=tolerance)
    assert not np.array_equal(together, expected), "the gradients were not rounded"


def test_sparse_weights_with_global_mean_are_those_of_one_process():
    expected = alone(sparse_loss, sparse_variables)
    together = in_rounds(sparse_loss, sparse_variables, sparse_reduction="GLOBAL_MEAN")
    np.testing.assert_allclose(together, expected, rtol=1e-6)


def test_sparse_weights_with_the_sum_of_halved_losses_are_those_of_one_process():
    def half(variables, which):
        return sparse_loss(variables, which) / 2

    together = in_rounds(half, sparse_variables, sparse_reduction="SUM")
    np.testing.assert_allclose(together, alone(sparse_loss, sparse_variables), rtol=1e-6)


def test_sparse_weights_with_the_mean_of_rows_differ_as_they_do_with_the_original():
    """A row that one of two workers has is not halved."""
    (together,) = in_rounds(sparse_loss, sparse_variables)
    (expected,) = alone(sparse_loss, sparse_variables)
    both, one = [0, 3], [1, 5]  # Rows of both batches, and of one of them.
    np.testing.assert_allclose(together[both], expected[both], rtol=1e-6)
    assert not np.allclose(together[one], expected[one])


def test_averages_are_applied_in_each_round():
    def make(which):
        variables = dense_variables()
        averages = v1.train.ExponentialMovingAverage(0.5)
        return dense_loss(variables, which), variables, {}, averages

    (weights,), (average,) = train_in_rounds(make, rounds=1)
    np.testing.assert_allclose(average, (np.array([0.5, -0.5]) + weights) / 2, rtol=1e-6)


def test_a_variable_without_a_gradient_is_left_alone(v1_graph):
    step = v1.train.get_or_create_global_step()
    variables = [v1.get_variable(name, initializer=[1.0]) for name in "ab"]
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
    pairs = [(tf.constant([1.0]), variables[0]), (None, variables[1])]
    train = optimizer.apply_gradients(pairs, step)
    with monitored(optimizer) as session:
        session.run(train)
        while session.run(step) < 1:
            pass
        assert [value[0] for value in session.run(variables)] == [0.0, 1.0]
