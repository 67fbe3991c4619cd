"""Tests of accumulators that workers share in the shapes of legacy programs, on both libraries."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.call_sites.regression import descent, new_model, parts, trained
from tests.support.accumulator_support import unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
UPDATES = 3


@pytest.fixture(scope="module")
def server():
    return v1.train.Server.create_local_server()


def test_accumulators_named_after_their_variables_join_the_graphs_of_all_workers(
    library, switches, server
):
    scope = unique_name("replicated")

    def build():
        with tf.Graph().as_default() as graph, v1.variable_scope(scope):
            model, optimizer = new_model(), descent()
            pushes, means = [], []
            for gradient, variable in optimizer.compute_gradients(model.loss):
                accumulator = library.ConditionalAccumulator(
                    gradient.dtype,
                    shape=variable.get_shape(),
                    shared_name=variable.name + "/grad_accum",
                )
                assert accumulator.accumulator_ref.op.get_attr("shared_name") == (
                    f"{scope}/w:0/grad_accum".encode()
                )
                pushes.append(accumulator.apply_grad(gradient, local_step=model.step))
                means.append((accumulator.take_grad(2), variable))
            update = optimizer.apply_gradients(means, global_step=model.step)
            return graph, model, tf.group(*pushes), update, v1.global_variables_initializer()

    graphs = [build() for _ in range(2)]
    sessions = [v1.Session(server.target, graph=built[0]) for built in graphs]
    sessions[0].run(graphs[0][4])
    for _ in range(UPDATES):
        update = Background(sessions[0].run, graphs[0][3])  # The chief waits for both workers.
        for (x, y), session, (_, model, push, *_) in zip(parts(2), sessions, graphs, strict=True):
            session.run(push, {model.x: x, model.y: y})
        update.result()
    for session, (_, model, *_) in zip(sessions, graphs, strict=True):
        np.testing.assert_array_equal(session.run(model.weights), trained(UPDATES))
        session.close()


def test_in_graph_replicas_wait_at_queues_of_their_own(library, switches):
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    optimizer, accumulator = descent(), library.ConditionalAccumulator(tf.float32, shape=[2])
    queues, turns = [], []
    for number, (x, y) in enumerate(parts(4)):
        with v1.name_scope(f"replica_{number}"):
            queues.append(v1.FIFOQueue(1, [tf.int64], [[]], shared_name=f"tokens_{number}"))
            token = queues[-1].dequeue()
            with tf.control_dependencies([token]):
                errors = tf.reduce_sum(x * tf.identity(weights), axis=1) - y
            gradient = tf.reduce_sum(x * errors[:, None], axis=0) / len(x)
            turns.append(accumulator.apply_grad(gradient, local_step=token))
    update = optimizer.apply_gradients([(accumulator.take_grad(4), weights)], step)
    with tf.control_dependencies([update]):
        after = v1.train.get_global_step().read_value() if switches.resource else step + 0
    begin = [queue.enqueue(step + 0) for queue in queues]
    release = [queue.enqueue(after) for queue in queues]

    def repeat(session, op, times):
        for _ in range(times):
            session.run(op)

    config = v1.ConfigProto(inter_op_parallelism_threads=8)
    with v1.Session(config=config) as session:
        session.run(v1.global_variables_initializer())
        session.run(begin)
        replicas = [Background(repeat, session, turn, UPDATES) for turn in turns]
        repeat(session, release, UPDATES)
        for replica in replicas:
            replica.result()
        assert session.run(step) == UPDATES
        np.testing.assert_array_equal(session.run(weights), trained(UPDATES))


def test_workers_push_variables_instead_of_gradients_to_average_models(library, switches):
    step = v1.train.get_or_create_global_step()
    common = v1.get_variable("common", [2], initializer=v1.zeros_initializer())
    accumulator = library.ConditionalAccumulator(
        common.dtype.base_dtype, shape=common.get_shape(), shared_name=common.name + "/var_accum"
    )
    moves, pushes, locals_ = [], [], []
    for number, target in enumerate([[8.0, 16.0], [-24.0, 0.0]]):
        local = v1.get_variable(
            f"local_{number}",
            initializer=tf.zeros([2]),
            collections=[v1.GraphKeys.LOCAL_VARIABLES],
        )
        loss = tf.reduce_sum(tf.square(local - target)) / 2
        moves.append(v1.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=[local]))
        value = local if switches.resource else local._ref()
        pushes.append(accumulator.apply_grad(value, local_step=step))
        locals_.append(local)
    with tf.control_dependencies([v1.assign(common, accumulator.take_grad(2))]):
        average = tf.group(
            v1.assign_add(step, 1),
            *[v1.assign(local, tf.identity(common)) for local in locals_],
        )

    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        for _ in range(UPDATES):
            for _ in range(2):
                session.run(moves)
            session.run(pushes)
            session.run(average)
        values, final_step = session.run([[common, *locals_], step])
    # Two moves leave a quarter of each distance. The mean of both targets is [-8, 8].
    expected = np.multiply([-8.0, 8.0], 1 - 0.25**UPDATES)
    np.testing.assert_array_equal(values, [expected] * 3)
    assert final_step == UPDATES
