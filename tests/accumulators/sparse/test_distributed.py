"""Tests of sparse gradients in a cluster, and of the placement of our accumulators in it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.rows import assert_rows, take_refuses_rows
from tests.support.accumulator_support import every_kind, unique_name
from tests.support.signatures import parameters
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")


def test_workers_push_rows_to_the_parameter_server(impl, cluster):
    with tf.Graph().as_default() as graph:
        with v1.device("/job:ps/task:0"):
            acc = impl.sparse(tf.float32, [9, 2], shared_name=unique_name("rows"))
        with v1.device("/job:worker/task:0"):
            indices = v1.placeholder(tf.int64, [None])
            values = v1.placeholder(tf.float32, [None, 2])
            apply = acc.apply_grad(indices * 1, values * 1.0, grad_shape=[9, 2])
            take, take_one, count = acc.take_grad(2), acc.take_grad(1), acc.num_accumulated()
    with v1.Session(cluster.ps_target, graph=graph) as chief:
        assert chief.run(count) == 0
        with v1.Session(cluster.targets[0], graph=graph) as worker:
            with pytest.raises(tf.errors.InvalidArgumentError, match="index is 9 exceeded 9"):
                worker.run(apply, {indices: [9], values: [[1.0, 2.0]]})
                if take_refuses_rows(impl):
                    chief.run(take_one)
            waiting = Background(chief.run, take)
            waiting.wait_until_blocked()
            worker.run(apply, {indices: [1, 8], values: [[1.0, 2.0], [3.0, 4.0]]})
            worker.run(apply, {indices: [1, 2], values: [[3.0, 4.0], [5.0, 6.0]]})
            expected = [[2.0, 3.0], [5.0, 6.0], [3.0, 4.0]]
            assert_rows(waiting.result(), [1, 2, 8], expected, [9, 2])
            assert worker.run(count) == 0


def test_original_is_put_on_the_worker_by_the_device_setter(original):
    with tf.Graph().as_default(), v1.device(v1.train.replica_device_setter(ps_tasks=1)):
        acc = original.sparse(tf.float32)
    assert acc.accumulator_ref.device == "/job:worker"


@every_kind
def test_our_device_setter_puts_accumulators_on_parameter_servers(ours):
    setter = ours.module.replica_device_setter(ps_tasks=2)
    with tf.Graph().as_default(), v1.device(setter):
        variable = v1.get_variable("v", initializer=tf.zeros([4, 2]))
        accumulators = [ours.dense(tf.float32, [4, 2]) for _ in range(2)]
        count, sum_ = accumulators[0].num_accumulated(), tf.constant(1.0) + 2.0
    assert variable.device == "/job:ps/task:0"
    devices = [acc.accumulator_ref.device for acc in accumulators]
    assert devices == ["/job:ps/task:1", "/job:ps/task:0"]
    assert count.device == sum_.device == "/job:worker"


def test_our_device_setter_takes_the_arguments_of_the_original(ours):
    mine, theirs = ours.module.replica_device_setter, v1.train.replica_device_setter
    assert parameters(mine) == parameters(theirs)
    setter = mine(ps_tasks=1, ps_device="/job:params", ps_ops=["Condacc>DenseAccumulator"])
    with tf.Graph().as_default(), v1.device(setter):
        sparse = ours.sparse(tf.float32)
        dense = ours.module.ConditionalAccumulator(tf.float32)
    assert sparse.accumulator_ref.device == "/job:worker"
    assert dense.accumulator_ref.device == "/job:params/task:0"


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
