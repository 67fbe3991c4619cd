"""Tests of accumulators in the shapes in which legacy programs use them, on both libraries."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.call_sites.regression import descent, new_model, parts, trained
from tests.support.drop_stale_support import SWITCHES, switched

v1 = tf.compat.v1
NEVER_STALE = 2**63 - 1
UPDATES = 3


def run_all(session, op, model, batches):
    for x, y in batches:
        session.run(op, {model.x: x, model.y: y})


def test_a_dtype_alone_is_enough_to_accumulate_over_micro_batches(library, switches):
    model, optimizer = new_model(), descent()
    pairs = optimizer.compute_gradients(model.loss)
    accumulators = [library.ConditionalAccumulator(gradient.dtype) for gradient, _ in pairs]
    push = tf.group(
        *[acc.apply_grad(g, model.step) for acc, (g, _) in zip(accumulators, pairs, strict=True)]
    )
    means = [(acc.take_grad(4), v) for acc, (_, v) in zip(accumulators, pairs, strict=True)]
    train = optimizer.apply_gradients(means, global_step=model.step)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(UPDATES):
            run_all(session, push, model, parts(4))
            session.run(train)
        np.testing.assert_array_equal(session.run(model.weights), trained(UPDATES))


def test_the_last_micro_batch_takes_and_applies_inside_a_cond(library, switches):
    model, optimizer = new_model(), descent()
    ((gradient, weights),) = optimizer.compute_gradients(model.loss)
    accumulator = library.ConditionalAccumulator(tf.float32, shape=weights.get_shape())

    def update():
        pairs = [(accumulator.take_grad(1), weights)]
        with tf.control_dependencies([optimizer.apply_gradients(pairs, model.step)]):
            return tf.constant(True)

    with tf.control_dependencies([accumulator.apply_grad(gradient, local_step=model.step)]):
        is_last = tf.equal(accumulator.num_accumulated(), 4)
        train = v1.cond(is_last, update, lambda: tf.constant(False))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        updated = [session.run(train, {model.x: x, model.y: y}) for x, y in parts(4)]
        assert updated == [False, False, False, True]
        run_all(session, train, model, parts(4))
        values = session.run([model.weights, model.step, accumulator.num_accumulated()])
    np.testing.assert_array_equal(values[0], trained(2))
    assert values[1:] == [2, 0]


def rewire(consumers, old, new):
    """Makes operations read `new` where they read `old`, as programs that edit graphs do."""
    for op in consumers:
        for position, tensor in enumerate(op.inputs):
            if tensor is old:
                op._update_input(position, new)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_consumers_of_gradients_are_rewired_to_what_is_taken(library, v1_graph, kind):
    rows = v1.placeholder(tf.int64, [None])
    table = v1.get_variable("table", [4, 2], initializer=v1.zeros_initializer())
    loss = tf.reduce_sum(tf.gather(table, rows) if kind == "sparse" else table * 2.0)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    ((gradient, _),) = pairs = optimizer.compute_gradients(loss)
    train = optimizer.apply_gradients(pairs)

    if kind == "sparse":
        olds = [gradient.values, gradient.indices]
        consumers = [list(old.consumers()) for old in olds]
        accumulator = library.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
        push = accumulator.apply_indexed_slices_grad(gradient, local_step=NEVER_STALE)
        with tf.control_dependencies([push]):
            taken = accumulator.take_indexed_slices_grad(2)
        news = [taken.values, taken.indices]
    else:
        olds = [gradient]
        consumers = [list(gradient.consumers())]
        accumulator = library.ConditionalAccumulator(tf.float32, shape=[4, 2])
        push = accumulator.apply_grad(gradient, local_step=NEVER_STALE)
        with tf.control_dependencies([push]):
            news = [accumulator.take_grad(2)]
    assert all(consumers)
    for ops, old, new in zip(consumers, olds, news, strict=True):
        rewire(ops, old, new)

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(UPDATES):
            session.run(push, {rows: [0, 1]})
            session.run(train, {rows: [1, 3]})
        values = session.run(table)
    moves = [1, 1, 0, 1] if kind == "sparse" else [2, 2, 2, 2]
    np.testing.assert_array_equal(values, -UPDATES * np.transpose([moves, moves]))


def test_a_stamp_token_is_the_local_step(library, switches):
    stamp = v1.get_variable("stamp", [], tf.int64, v1.constant_initializer(5), trainable=False)
    total = v1.get_variable("total", [2], initializer=v1.zeros_initializer(), trainable=False)
    statistics, token = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.int64, [])
    accumulator = library.ConditionalAccumulator(
        tf.float32, shape=[2], shared_name="growing", reduction_type="SUM"
    )
    begin = accumulator.set_global_step(stamp)

    def grow():
        add = v1.assign_add(total, accumulator.take_grad(1))
        with tf.control_dependencies([add]):
            return tf.identity(v1.assign_add(stamp, 1))

    with tf.control_dependencies([accumulator.apply_grad(statistics, token)]):
        is_enough = accumulator.num_accumulated() >= 2
        layer = v1.cond(is_enough, grow, lambda: tf.identity(stamp))

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(begin)
        pushes = [([1, 2], 5), ([64, 64], 4), ([3, 4], 5), ([64, 64], 5), ([5, 6], 6), ([7, 8], 6)]
        stamps = [session.run(layer, {statistics: s, token: t}) for s, t in pushes]
        assert stamps == [5, 5, 6, 6, 6, 7]
        assert session.run(total).tolist() == [16.0, 20.0]


def test_a_subclass_of_the_sparse_accumulator_overrides_applies_and_takes(library):
    class Averaging(library.SparseConditionalAccumulator):
        """Divides by the number of workers when gradients come, and negates when they go."""

        def __init__(self, workers, dtype, shape=None, shared_name=None):
            super().__init__(dtype, shape, shared_name, "averaging", "SUM")
            self.workers = workers

        def apply_grad(self, grad_indices, grad_values, *args, **kwargs):
            return super().apply_grad(grad_indices, grad_values / self.workers, *args, **kwargs)

        def take_grad(self, num_required, name=None):
            taken = super().take_grad(num_required, name)
            return taken._replace(values=tf.negative(taken.values))

        def take_indexed_slices_grad(self, num_required, name=None):
            return tf.negative(super().take_indexed_slices_grad(num_required, name).values)

    with switched(*SWITCHES["ref"]), tf.Graph().as_default(), v1.Session() as session:
        accumulator = Averaging(2.0, tf.float32, [4, 1])
        assert accumulator.name == "averaging" and accumulator.dtype == tf.float32
        slices = tf.IndexedSlices(tf.constant([[4.0], [8.0]]), tf.constant([0, 3]))
        pushes = [
            accumulator.apply_indexed_slices_grad(slices, local_step=7),
            accumulator.apply_grad(tf.constant([3]), tf.constant([[2.0]]), local_step=7),
        ]
        session.run(pushes)
        taken = session.run(accumulator.take_grad(2))
        assert (taken.indices.tolist(), taken.values.tolist()) == ([0, 3], [[-2.0], [-5.0]])
        session.run(pushes)
        # In the original, neither of the takes calls the other one.
        assert session.run(accumulator.take_indexed_slices_grad(2)).tolist() == [[-2.0], [-5.0]]
