"""Tests of the parts of a sparse gradient: the forms that calls accept, and IndexedSlices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import running
from tests.accumulators.support.outcomes import ADDED, DUPLICATE
from tests.accumulators.support.rows import assert_rows

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")
VALUES = np.float32([[1.0, 2.0], [3.0, 4.0]])
FORMS = [[0, 2], (0, 2), [0.9, 2.9], *(np.array([0.5, 2.5]).astype(t) for t in "qiBdf")]


@pytest.mark.parametrize("indices", [*FORMS, np.array([False, True])], ids=repr)
def test_row_numbers_are_cast_to_int64(impl, indices):
    with running(impl) as run:
        acc = impl.sparse(tf.float32)
        run(acc.apply_grad(indices, VALUES))
        expected = np.array(indices).astype(np.int64)
        assert_rows(run(acc.take_grad(1)), expected, VALUES, [-1, 2])


@pytest.mark.parametrize(
    "shape",
    [
        *[[3, 2], (3, 2), [3.9, 2.9], tf.TensorShape([3, 2]), None],
        *(np.array([3, 2]).astype(t) for t in "qid"),
    ],
    ids=repr,
)
def test_a_shape_is_cast_to_int64(impl, shape):
    with running(impl) as run:
        acc = impl.sparse(tf.float32, [3, 2])
        run(acc.apply_grad(grad_indices=[0, 2], grad_values=VALUES, grad_shape=shape))
        assert_rows(run(acc.take_grad(1)), [0, 2], VALUES, [3, 2])


def test_a_shape_may_be_empty_if_it_is_unknown(ours):
    acc = ours.sparse(tf.float32, [3, 2])
    acc.apply_grad([0, 2], VALUES, grad_shape=[])
    acc.apply_grad([0, 2], VALUES, grad_shape=tf.zeros([0], tf.int32))
    np.testing.assert_array_equal(acc.take_grad(2).values, VALUES)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    "values", [VALUES.astype(t) for t in "dqe"] + [VALUES.tolist(), [[1, 2], [3, 4]]], ids=repr
)
def test_values_of_another_dtype_are_converted(ours, values, eager):
    """The original aborts the process if it gets float64, NumPy's default."""
    with tf.init_scope() if eager else tf.Graph().as_default():
        acc = ours.sparse(tf.float32)
        applied = acc.apply_grad([0, 2], values)
        if eager:
            taken = tf.nest.map_structure(lambda tensor: tensor.numpy(), acc.take_grad(1))
        else:
            with v1.Session() as session:
                session.run(applied)
                taken = session.run(acc.take_grad(1))
    assert_rows(taken, [0, 2], VALUES)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_slices_are_taken_apart_and_put_together(impl, dtype):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.sparse(tf.float32, [3, 2])
        for shape in (None, tf.constant([3, 2], dtype)):
            slices = tf.IndexedSlices(tf.constant(VALUES), tf.constant([0, 2], dtype), shape)
            applied = acc.apply_indexed_slices_grad(slices, local_step=1)
            assert isinstance(applied, tf.Operation)
            session.run(applied)
        taken = acc.take_indexed_slices_grad(2)
        assert isinstance(taken, tf.IndexedSlices)
        value = session.run(taken)
        np.testing.assert_array_equal(value.indices, [0, 2])
        np.testing.assert_array_equal(value.values, VALUES)
        np.testing.assert_array_equal(value.dense_shape, [3, 2])
        session.run(acc.set_global_step(2))
        session.run(applied)  # It is stale now.
        assert session.run(acc.num_accumulated()) == 0


def test_slices_of_a_float64_are_refused(ours, graph):
    slices = tf.IndexedSlices(tf.ones([2, 2], tf.float64), tf.constant([0, 2]))
    with pytest.raises(ValueError, match="Tensor conversion requested dtype float32"):
        ours.sparse(tf.float32).apply_indexed_slices_grad(slices)


def test_the_gradient_of_an_embedding_lookup_can_be_applied_as_it_is(ours):
    table = tf.Variable(tf.ones([4, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [3, 1, 3]))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    acc = ours.sparse(tf.float32, [4, 2])
    assert acc.try_apply_indexed_slices_grad(gradient)
    assert not acc.try_apply_indexed_slices_grad(gradient, local_step=-1)
    taken, value = acc.try_take_indexed_slices_grad(1)
    assert taken and isinstance(value, tf.IndexedSlices)
    np.testing.assert_array_equal(value.indices, [1, 3])
    np.testing.assert_array_equal(value.values, [[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_array_equal(value.dense_shape, [4, 2])
    assert not acc.try_take_indexed_slices_grad(1).taken


def test_contributions_are_parts_or_slices(ours):
    acc = ours.sparse(tf.float32, [9, 1], reduction_type="SUM")
    with pytest.raises(tf.errors.InvalidArgumentError, match="hape"):
        acc.apply_contribution([3], [[4.0]], 0, grad_shape=[8, 1])
    slices = tf.IndexedSlices(tf.constant([[2.0], [8.0]]), tf.constant([5, 3], tf.int64))
    outcomes = [
        acc.apply_contribution(tf.constant([3], tf.int16), [[4.0]], 0, grad_shape=[9, 1]),
        acc.apply_indexed_slices_contribution(slices, 1),
        acc.apply_contribution(tf.constant([6], tf.int32), [[100.0]], 1),
    ]
    assert [int(outcome) for outcome in outcomes] == [ADDED, ADDED, DUPLICATE]
    taken, value = acc.try_take_indexed_slices_grad(1, global_step=5)
    assert not taken and value.indices.shape == [0]
    taken, value = acc.try_take_indexed_slices_grad(2, global_step=0)
    assert taken and isinstance(value, tf.IndexedSlices)
    np.testing.assert_array_equal(value.indices, [3, 5])
    np.testing.assert_array_equal(value.values, [[12.0], [2.0]])
    np.testing.assert_array_equal(value.dense_shape, [9, 1])


def test_take_returns_a_named_tuple(impl, graph):
    taken = impl.sparse(tf.float32, [None, 3]).take_grad(1)
    assert isinstance(taken, tuple) and taken._fields == ("indices", "values", "shape")
    assert [part.dtype for part in taken] == [tf.int64, tf.float32, tf.int64]


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
@pytest.mark.parametrize("shape", [None, [], [7, 3]], ids=str)
def test_the_static_shape_of_what_is_taken_is_that_of_try_take_only(impl, in_function, shape):
    def check(acc):
        taken = acc.take_grad(1)
        assert taken.values.shape.rank is None
        assert not taken.shape.shape.is_fully_defined()
        if impl.ours:
            values = acc.try_take_grad(1).value.values
            expected = None if shape is None else [None, *shape[1:]]
            assert values.shape.is_compatible_with(expected) and values.shape.rank == (
                None if expected is None else len(expected)
            )

    if in_function and impl.ours:
        acc = impl.sparse(tf.float32, shape)
        tf.function(lambda: check(acc)).get_concrete_function()
    else:
        with tf.Graph().as_default():
            check(impl.sparse(tf.float32, shape))
