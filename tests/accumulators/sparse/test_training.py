"""Tests of training with sparse gradients of two replicas, whose true mean is applied."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import data_flow_ops
from tensorflow.python.training import sync_replicas_optimizer

from tests.support.accumulator_support import unique_name
from tests.support.many_threads import join_queue_runners
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")
# When the session ends, the pending take is cancelled and ends the chief's thread with an error.
ends_while_the_chief_waits = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)

# Each case has the rows that the two replicas look up, and how far a step of size 1 moves each row
# of the table.
LOOKUPS = {
    "opposite_orders": ([0, 1, 2, 3], [3, 2, 1, 0], [1.0, 1.0, 1.0, 1.0]),
    "repeats": ([3, 1, 3], [1, 3, 3], [0.0, 1.0, 0.0, 2.0]),
    "one_has_none": ([2, 2], [], [0.0, 0.0, 2.0, 0.0]),
    "apart": ([0, 1], [3], [1.0, 1.0, 0.0, 1.0]),
}
ROUNDS = 3


def table_variable():
    return v1.get_variable("table", initializer=tf.zeros([4, 2]), use_resource=True)


def lookup_gradient(table, rows):
    """Returns the gradient of the sum of some rows: IndexedSlices with the rows as looked up."""
    (gradient,) = v1.gradients(tf.reduce_sum(tf.gather(table, rows)), [table])
    assert isinstance(gradient, tf.IndexedSlices)
    return gradient


def trained_in_a_session(impl, lookups):
    with tf.Graph().as_default(), v1.Session() as session:
        table, step = table_variable(), v1.train.get_or_create_global_step()
        rows = v1.placeholder(tf.int32, [None])
        acc = impl.sparse(tf.float32, [4, 2])
        apply = acc.apply_indexed_slices_grad(lookup_gradient(table, rows), step)
        mean = acc.take_indexed_slices_grad(2)
        train = v1.train.GradientDescentOptimizer(1.0).apply_gradients([(mean, table)], step)
        session.run(v1.global_variables_initializer())
        for _ in range(ROUNDS):
            for replica in lookups:
                session.run(apply, {rows: replica})
            session.run(train)
        return session.run(table)


def trained_eagerly(impl, lookups):
    table, acc = tf.Variable(tf.zeros([4, 2])), impl.sparse(tf.float32, [4, 2])
    for step in range(ROUNDS):
        for replica in lookups:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, tf.constant(replica, tf.int32)))
            acc.apply_indexed_slices_grad(tape.gradient(loss, table), step)
        mean = acc.take_indexed_slices_grad(2)
        table.scatter_sub(tf.IndexedSlices(mean.values, mean.indices))
    return table.numpy()


def expected_table(moves):
    return np.repeat(-ROUNDS * np.array(moves)[:, None], 2, axis=1)


@pytest.mark.parametrize("which", LOOKUPS)
def test_two_replicas_move_the_table_by_the_true_mean(ours, which):
    *lookups, moves = LOOKUPS[which]
    for train in (trained_in_a_session, trained_eagerly):
        np.testing.assert_array_equal(train(ours, lookups), expected_table(moves))


@pytest.mark.parametrize(
    ("which", "moves"),
    [("opposite_orders", [2.0, 2.0, 2.0, 1.0]), ("repeats", [0.0, 2.0, 0.0, 2.0])],
)
def test_original_moves_it_by_something_else(original, which, moves):
    *lookups, _ = LOOKUPS[which]
    got = trained_in_a_session(original, lookups)
    np.testing.assert_array_equal(got, expected_table(moves))


def use_our_accumulators(monkeypatch, ours):
    """Makes tf.compat.v1.train.SyncReplicasOptimizer build its graph with our accumulators."""
    names = dict(vars(data_flow_ops))
    names["SparseConditionalAccumulator"] = ours.module.SparseConditionalAccumulator
    names["ConditionalAccumulator"] = ours.module.ConditionalAccumulator
    replaced = types.SimpleNamespace(**names)
    monkeypatch.setattr(sync_replicas_optimizer, "data_flow_ops", replaced)


@ends_while_the_chief_waits
@pytest.mark.parametrize("which", ["opposite_orders", "one_has_none"])
def test_sync_replicas_optimizer_trains_through_ours(ours, monkeypatch, which):
    *lookups, moves = LOOKUPS[which]
    use_our_accumulators(monkeypatch, ours)
    with tf.Graph().as_default() as graph:
        table, step = table_variable(), v1.train.get_or_create_global_step()
        bias = v1.get_variable("bias", initializer=0.0, use_resource=True)
        rows = v1.placeholder(tf.int32, [None])
        loss = tf.reduce_sum(tf.gather(table, rows)) + 4.0 * bias
        optimizer = v1.train.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=2, total_num_replicas=2
        )
        train = optimizer.minimize(loss, step)
        types_of_ops = {op.type for op in graph.get_operations()}
        assert {"Condacc>SparseAccumulator", "Condacc>DenseAccumulator"} <= types_of_ops
        hook = optimizer.make_session_run_hook(is_chief=True, num_tokens=0)
        with v1.train.MonitoredTrainingSession(hooks=[hook], stop_grace_period_secs=0.1) as session:
            for _ in range(ROUNDS):
                replicas = [Background(session.run, train, {rows: replica}) for replica in lookups]
                for replica in replicas:
                    replica.result()
            values = session.run_step_fn(
                lambda step_context: step_context.session.run([table, bias])
            )
    join_queue_runners()
    np.testing.assert_array_equal(values[0], expected_table(moves))
    assert values[1] == -4.0 * ROUNDS


def test_two_workers_train_an_embedding_on_a_parameter_server(ours, cluster):
    spec = v1.train.ClusterSpec({"ps": ["unused:1"], "worker": ["unused:2"]})
    setter = ours.module.replica_device_setter(cluster=spec, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, v1.device(setter):
        table = v1.get_variable("table", initializer=tf.zeros([4, 2]), use_resource=True)
        step = v1.train.get_or_create_global_step()
        rows = v1.placeholder(tf.int32, [None])
        acc = ours.sparse(tf.float32, [4, 2], shared_name=unique_name("table_grads"))
        loss = tf.reduce_sum(tf.gather(table, rows))
        (gradient,) = v1.gradients(loss, [table])
        apply = acc.apply_indexed_slices_grad(gradient, step)
        mean = acc.take_indexed_slices_grad(2)
        train = v1.train.GradientDescentOptimizer(1.0).apply_gradients([(mean, table)], step)
        init = v1.global_variables_initializer()
    assert acc.accumulator_ref.device.startswith("/job:ps")
    with v1.Session(cluster.ps_target, graph=graph) as chief:
        chief.run(init)
        workers = [v1.Session(cluster.targets[0], graph=graph) for _ in range(2)]
        for _ in range(3):
            update = Background(chief.run, train)
            for worker, replica in zip(workers, ([3, 1, 3], [1, 3, 3]), strict=True):
                worker.run(apply, {rows: replica})
            update.result()
        for worker in workers:
            worker.close()
        expected = -3.0 * np.array([[0.0], [1.0], [0.0], [2.0]]) * np.ones([4, 2])
        np.testing.assert_array_equal(chief.run(table), expected)
