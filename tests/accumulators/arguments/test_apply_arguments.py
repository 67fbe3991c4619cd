"""Tests of the arguments that `apply_grad` accepts and refuses as gradient and as local_step."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name

v1 = tf.compat.v1


@pytest.fixture
def apply_and_count(mode, impl):
    """Applies with the arguments as given, at step `gs`; returns the count afterwards."""

    def call(gradient, local_step, gs=0):
        if mode == "eager":
            acc = impl.dense(tf.float32, shared_name=unique_name())
            acc.set_global_step(gs)
            acc.apply_grad(gradient, local_step)
            return int(acc.num_accumulated())
        with tf.Graph().as_default(), v1.Session() as session:
            acc = impl.dense(tf.float32)
            session.run(acc.set_global_step(gs))
            session.run(acc.apply_grad(gradient, local_step))
            return session.run(acc.num_accumulated())

    return call


@pytest.mark.parametrize(
    "step",
    [1, 1.0, np.int32(1), np.int64(1), np.float32(1.5), np.uint8(1), np.array(1)],
    ids=repr,
)
@every_kind
def test_local_step_is_cast_to_int64(apply_and_count, step):
    assert apply_and_count([1.0], step, gs=1) == 1
    assert apply_and_count([1.0], step, gs=2) == 0


@every_kind
@pytest.mark.parametrize(("step", "error"), [(True, TypeError), (1.9, ValueError)])
def test_a_python_step_that_is_no_whole_number_is_refused(ours, step, error):
    acc = ours.dense(tf.float32, [], name="stepped")
    with pytest.raises(error, match=f"local_step must be a whole number, got {step}"):
        acc.apply_grad(1.0, step)
    with pytest.raises(error, match=f"new_global_step must be a whole number, got {step}"):
        acc.set_global_step(step)
    with pytest.raises(error, match=f"new_global_step .* got {step} .accumulator 'stepped'"):
        acc.reset(step)
    assert [int(acc.num_accumulated()), int(acc.global_step())] == [0, 0]


@every_kind
def test_a_python_step_is_not_rounded(ours):
    acc = ours.dense(tf.float32, [])
    acc.set_global_step(16777217.0)  # float32 has no such number.
    assert int(acc.global_step()) == 16777217
    with pytest.raises(ValueError, match="out-of-range integer"):
        acc.set_global_step(1e30)
    assert int(acc.global_step()) == 16777217


@pytest.mark.parametrize("where", ["eager", "function", "graph"])
@every_kind
def test_a_gradient_may_be_a_list_of_tensors(ours, where):
    with tf.Graph().as_default() if where == "graph" else contextlib.nullcontext():
        acc = ours.dense(tf.float32, [2])

        def apply_and_take(number):
            with tf.control_dependencies([acc.apply_grad([number, 2.0])] * (where == "graph")):
                return acc.take_grad(1)

        run = tf.function(apply_and_take) if where == "function" else apply_and_take
        taken = run(tf.constant(1.0))
        if where == "graph":
            with v1.Session() as session:
                taken = session.run(taken)
    np.testing.assert_array_equal(taken, [1.0, 2.0])


@pytest.mark.parametrize("gradient", [1j, [1.0, 2j], np.array([1 + 1j])])
def test_a_complex_gradient_of_real_numbers_is_refused(ours, gradient):
    acc = ours.dense(tf.float32, name="real")
    with pytest.raises(TypeError, match="'real' of dtype float32 has got a complex gradient"):
        acc.apply_grad(gradient)
    acc.apply_grad(np.array([1 + 0j]).real)
    assert int(acc.num_accumulated()) == 1


@every_kind
def test_largest_unsigned_local_step_becomes_minus_one(apply_and_count):
    assert apply_and_count([1.0], np.uint64(2**64 - 1), gs=0) == 0
    assert apply_and_count([1.0], np.uint64(2**64 - 1), gs=-1) == 1


@every_kind
def test_local_step_none_is_a_value_error(apply_and_count):
    with pytest.raises(ValueError, match="None"):
        apply_and_count([1.0], None)


@every_kind
def test_local_step_string_cannot_be_cast(apply_and_count):
    with pytest.raises((tf.errors.UnimplementedError, TypeError, ValueError), match="[Cc]ast"):
        apply_and_count([1.0], "one")


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float64])
@every_kind
def test_local_step_may_be_a_tensor_or_variable(impl, dtype):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [])
        variable = v1.get_variable("step", initializer=tf.constant(3, dtype))
        applies = [acc.apply_grad(1.0, variable), acc.apply_grad(1.0, tf.constant(3, dtype))]
        session.run([variable.initializer, acc.set_global_step(3)])
        session.run(applies)
        assert session.run(acc.num_accumulated()) == 2


@pytest.mark.parametrize("step", [[1], [[1]], [1, 2], []], ids=repr)
@every_kind
def test_local_step_that_is_statically_no_scalar_is_a_value_error(impl, step):
    with tf.Graph().as_default():
        acc = impl.dense(tf.float32, [])
        with pytest.raises(ValueError, match=r"must be rank 0 but is rank [12]"):
            acc.apply_grad(1.0, np.array(step, np.int64))


@pytest.mark.parametrize(
    "gradient",
    [
        [1.0, 2.0],
        (1, 2),
        np.array([1.0, 2.0], np.float64),
        np.array([1, 2], np.int64),
        np.array([1, 2], np.float16),
    ],
    ids=repr,
)
def test_lists_and_arrays_are_cast_to_the_accumulators_dtype(impl, gradient):
    acc = impl.dense(tf.float32, [2], shared_name=unique_name())
    acc.apply_grad(gradient)
    taken = acc.take_grad(1)
    assert taken.dtype == tf.float32
    np.testing.assert_array_equal(taken, [1.0, 2.0])


@every_kind
@needs_resource
def test_array_may_change_after_an_eager_apply(impl):
    acc = impl.dense(tf.float32, shared_name=unique_name(), reduction_type="SUM")
    array = np.ones([4096], np.float32)
    for _ in range(3):
        acc.apply_grad(array)
        array *= 10.0
    np.testing.assert_array_equal(acc.take_grad(3), np.full([4096], 111.0))


@every_kind
@needs_resource
def test_eager_tensor_and_variable_survive_their_apply(impl):
    acc = impl.dense(tf.float32, shared_name=unique_name(), reduction_type="SUM")
    tensor, variable = tf.ones([4096]), tf.Variable(tf.fill([4096], 10.0))
    for _ in range(3):
        acc.apply_grad(tensor)
        acc.apply_grad(variable)
        variable.assign_add(tf.ones([4096]))
    np.testing.assert_array_equal(tensor, np.ones([4096]))
    np.testing.assert_array_equal(variable, np.full([4096], 13.0))
    np.testing.assert_array_equal(acc.take_grad(6), np.full([4096], 36.0))


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.int32])
def test_tensor_of_another_dtype_is_a_value_error(impl, dtype):
    message = f"Tensor conversion requested dtype float32 for Tensor with dtype {dtype.name}"
    with tf.Graph().as_default():
        acc = impl.dense(tf.float32)
        with pytest.raises(ValueError, match=message):
            acc.apply_grad(tf.ones([2], dtype))
    with pytest.raises(ValueError, match=message):
        impl.dense(tf.float32, shared_name=unique_name()).apply_grad(tf.ones([2], dtype))


def test_gradient_none_is_a_value_error(apply_and_count):
    with pytest.raises(ValueError, match="None"):
        apply_and_count(None, 0)


def test_indexed_slices_are_densified(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [3, 2])
        slices = tf.IndexedSlices(
            values=tf.constant([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]]),
            indices=tf.constant([2, 0, 2]),
            dense_shape=tf.constant([3, 2]),
        )
        session.run(acc.apply_grad(slices))
        expected = [[3.0, 4.0], [0.0, 0.0], [11.0, 22.0]]
        np.testing.assert_array_equal(session.run(acc.take_grad(1)), expected)


def test_indexed_slices_with_an_unknown_dense_dimension_are_refused(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32)
        slices = tf.IndexedSlices(
            values=v1.placeholder_with_default(tf.ones([1, 2]), [None, 2]),
            indices=v1.placeholder_with_default(tf.constant([0]), [None]),
            dense_shape=v1.placeholder_with_default(tf.constant([-1, 2]), [None]),
        )
        apply, count = acc.apply_grad(slices), acc.num_accumulated()
        with pytest.raises(tf.errors.InvalidArgumentError, match="must not be negative"):
            session.run(apply)
        assert session.run(count) == 0


def test_gradient_of_an_embedding_lookup_can_be_applied(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", initializer=tf.ones([4, 2]), use_resource=True)
        loss = tf.reduce_sum(tf.gather(table, [3, 1, 3]))
        (gradient,) = v1.gradients(loss, [table])
        acc = impl.dense(tf.float32, [4, 2])
        session.run(table.initializer)
        session.run(acc.apply_grad(gradient))
        expected = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
        np.testing.assert_array_equal(session.run(acc.take_grad(1)), expected)


@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=needs_resource)])
@pytest.mark.parametrize("shape", [[2, 2], [3], [], [3, 2, 1]])
def test_gradient_of_an_incompatible_static_shape_is_a_value_error(impl, shape, eager):
    graph = tf.Graph()
    with contextlib.nullcontext() if eager else graph.as_default():
        acc = impl.dense(tf.float32, [3, 2], shared_name=unique_name())
        with pytest.raises(ValueError, match=r"Shapes .* are incompatible"):
            acc.apply_grad(tf.ones(shape))


def test_gradient_of_unknown_static_shape_is_checked_when_run(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [3, 2])
        gradient = v1.placeholder(tf.float32, None)
        apply = acc.apply_grad(gradient)
        session.run(apply, {gradient: np.ones([3, 2])})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
            session.run(apply, {gradient: np.ones([2, 3])})
        assert session.run(acc.num_accumulated()) == 1
