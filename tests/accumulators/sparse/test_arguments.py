"""Tests of the arguments of the sparse accumulator's apply_grad when the operation is built."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.rows import Rows, assert_rows

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")


@pytest.fixture
def apply_and_take(mode, impl):
    """Applies with the given arguments, and takes."""

    def call(*args, shape=None, **kwargs):
        if mode == "eager":
            acc = impl.sparse(tf.float32, shape)
            acc.apply_grad(*args, **kwargs)
            return tf.nest.map_structure(lambda t: t.numpy(), acc.take_grad(1))
        with tf.Graph().as_default(), v1.Session() as session:
            acc = impl.sparse(tf.float32, shape)
            session.run(acc.apply_grad(*args, **kwargs))
            return session.run(acc.take_grad(1))

    return call


VALUES = np.float32([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "indices",
    [
        [0, 2],
        (0, 2),
        [0.9, 2.9],
        np.array([0, 2]),
        np.array([0, 2], np.int32),
        np.array([0, 2], np.uint8),
        np.array([0.5, 2.5]),
        np.array([0.5, 2.5], np.float32),
    ],
    ids=repr,
)
def test_indices_are_cast_to_int64(apply_and_take, indices):
    assert_rows(apply_and_take(indices, VALUES), [0, 2], VALUES, [-1, 2])


@pytest.mark.parametrize("indices", [[False, True], np.array([False, True])], ids=repr)
def test_indices_may_be_truth_values(apply_and_take, indices):
    assert_rows(apply_and_take(indices, VALUES), [0, 1], VALUES, [-1, 2])


@pytest.mark.parametrize(
    "grad_shape",
    [
        [3, 2],
        (3, 2),
        [3.9, 2.9],
        np.array([3, 2]),
        np.array([3, 2], np.int32),
        np.array([3, 2], np.float64),
        tf.TensorShape([3, 2]),
        None,
    ],
    ids=repr,
)
def test_grad_shape_is_cast_to_int64(apply_and_take, grad_shape):
    got = apply_and_take([0, 2], VALUES, grad_shape, shape=[3, 2])
    assert_rows(got, [0, 2], VALUES, [3, 2])


def test_grad_shape_may_be_empty_if_unknown(ours):
    acc = ours.sparse(tf.float32, [3, 2])
    acc.apply_grad([0, 2], VALUES, grad_shape=[])
    acc.apply_grad([0, 2], VALUES, grad_shape=tf.zeros([0], tf.int32))
    np.testing.assert_array_equal(acc.take_grad(2).values, VALUES)


def test_arguments_may_be_given_by_name(apply_and_take):
    got = apply_and_take(
        grad_indices=[1], grad_values=VALUES[:1], grad_shape=[3, 2], local_step=0, name="apply"
    )
    assert_rows(got, [1], VALUES[:1], [-1, 2])


def test_values_may_be_lists_of_floats(apply_and_take):
    assert_rows(apply_and_take([0, 2], [[1.0, 2.0], [3.0, 4.0]]), [0, 2], VALUES)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], np.float16),
        [[1, 2], [3, 4]],
    ],
    ids=repr,
)
def test_lists_and_arrays_of_another_dtype_are_converted(ours, values):
    for eager in (True, False):
        with tf.init_scope() if eager else tf.Graph().as_default():
            acc = ours.sparse(tf.float32)
            applied = acc.apply_grad([0, 2], values)
            if eager:
                assert_rows(
                    tf.nest.map_structure(lambda t: t.numpy(), acc.take_grad(1)), [0, 2], VALUES
                )
                continue
            with v1.Session() as session:
                session.run(applied)
                assert_rows(session.run(acc.take_grad(1)), [0, 2], VALUES)


@pytest.mark.parametrize("method", ["apply_grad", "try_apply_grad"])
@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.int32])
def test_tensor_of_another_dtype_is_a_value_error(ours, dtype, method):
    message = f"Tensor conversion requested dtype float32 for Tensor with dtype {dtype.name}"
    values = tf.ones([2, 2], dtype)
    acc = ours.sparse(tf.float32)
    with pytest.raises(ValueError, match=message):
        getattr(acc, method)([0, 2], values)
    assert int(acc.num_accumulated()) == 0
    with tf.Graph().as_default():
        acc = ours.sparse(tf.float32)
        with pytest.raises(ValueError, match=message):
            getattr(acc, method)([0, 2], tf.ones([2, 2], dtype))
        slices = tf.IndexedSlices(tf.ones([2, 2], dtype), tf.constant([0, 2]))
        with pytest.raises(ValueError, match=message):
            acc.apply_indexed_slices_grad(slices)


@pytest.mark.parametrize("missing", ["grad_indices", "grad_values"])
def test_missing_part_is_a_value_error(apply_and_take, missing):
    parts = dict(grad_indices=[0, 2], grad_values=VALUES) | {missing: None}
    with pytest.raises(ValueError, match="None"):
        apply_and_take(**parts)


@pytest.mark.parametrize("indices", [["a", "b"], [[0], [1, 2]]], ids=repr)
def test_indices_that_are_no_numbers_are_refused(ours, indices):
    acc = ours.sparse(tf.float32)
    with pytest.raises((TypeError, ValueError, tf.errors.UnimplementedError)):
        acc.apply_grad(indices, VALUES)
    assert int(acc.num_accumulated()) == 0


@pytest.mark.parametrize("dense_shape", [None, [3, 2]])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_indexed_slices_are_taken_apart(impl, dense_shape, dtype):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.sparse(tf.float32, [3, 2])
        shape = None if dense_shape is None else tf.constant(dense_shape, dtype)
        slices = tf.IndexedSlices(tf.constant(VALUES), tf.constant([0, 2], dtype), shape)
        session.run(acc.apply_indexed_slices_grad(slices))
        assert_rows(session.run(acc.take_grad(1)), [0, 2], VALUES, [3, 2])


def test_local_step_of_indexed_slices_decides_too(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.sparse(tf.float32)
        slices = tf.IndexedSlices(tf.constant(VALUES), tf.constant([0, 2]))
        session.run(acc.set_global_step(2))
        session.run([acc.apply_indexed_slices_grad(slices, local_step=step) for step in range(4)])
        assert session.run(acc.num_accumulated()) == 2


def test_gradient_of_an_embedding_lookup_can_be_applied_as_it_is(ours):
    table = tf.Variable(tf.ones([4, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [3, 1, 3]))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    acc = ours.sparse(tf.float32, [4, 2])
    acc.apply_indexed_slices_grad(gradient)
    taken = acc.take_indexed_slices_grad(1)
    np.testing.assert_array_equal(taken.indices, [1, 3])
    np.testing.assert_array_equal(taken.values, [[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_array_equal(taken.dense_shape, [4, 2])


def test_arrays_may_change_after_an_apply(ours, rows_driver):
    acc = rows_driver(ours, reduction_type="SUM")
    indices, values = np.array([1, 5]), np.ones([2, 1000], np.float32)
    for _ in range(3):
        acc.apply(Rows(indices, values))
        indices += 1
        values *= 10.0
    taken = acc.take(3)
    np.testing.assert_array_equal(taken.indices, [1, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(taken.values[:, 0], [1.0, 10.0, 100.0] * 2)


def test_returned_parts_are_not_touched_by_later_applies(ours):
    acc = ours.sparse(tf.float32, reduction_type="SUM")
    indices, values = tf.constant([2, 9]), tf.ones([2, 500])
    held = []
    for step in range(4):
        for _ in range(step + 1):
            acc.apply_grad(indices, values, local_step=step)
        held.append(acc.take_grad(1))
    for step, taken in enumerate(held):
        np.testing.assert_array_equal(taken.indices, [2, 9])
        np.testing.assert_array_equal(taken.values, np.full([2, 500], step + 1.0))
    np.testing.assert_array_equal(values, np.ones([2, 500]))
