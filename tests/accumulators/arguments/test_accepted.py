"""Tests of the forms of arguments that calls accept: numbers, arrays, tensors and variables."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import running
from tests.support.accumulator_support import every_kind, unique_name
from tf_condacc import ApplyOutcome

v1 = tf.compat.v1
NUMBERS = [1, 1.0, np.int32(1), np.int64(1), np.float32(1.5), np.float64(1.2), np.uint8(1)]
STEPS = {
    **{f"{type(number).__name__} {number}": lambda number=number: number for number in NUMBERS},
    "array": lambda: np.array(1),
    "int32 tensor": lambda: tf.constant(1),
    "float64 tensor": lambda: tf.constant(1.0, tf.float64),
    "variable": lambda: v1.get_variable("one", initializer=tf.constant(1)),
}


@pytest.mark.parametrize("form", STEPS)
@every_kind
def test_a_step_is_cast_to_int64(impl, form):
    with running(impl) as run:
        step = STEPS[form]()
        acc = impl.dense(tf.float32, [])
        run(v1.global_variables_initializer())
        run(acc.set_global_step(step))
        run(acc.apply_grad(1.0, 0))
        assert run(acc.num_accumulated()) == 0
        run(acc.apply_grad(1.0, step))
        assert run(acc.num_accumulated()) == 1
        if impl.ours:
            assert not run(acc.try_take_grad(1, global_step=2)[0])
            assert run(acc.try_take_grad(1, global_step=step)[0])


@every_kind
def test_the_largest_unsigned_step_becomes_minus_one(impl):
    with running(impl) as run:
        acc, step = impl.dense(tf.float32, []), np.uint64(2**64 - 1)
        run(acc.apply_grad(1.0, step))
        assert run(acc.num_accumulated()) == 0
        run(acc.set_global_step(-1))
        run(acc.apply_grad(1.0, step))
        assert run(acc.num_accumulated()) == 1


@every_kind
def test_a_python_step_is_not_rounded(ours):
    acc = ours.dense(tf.float32, [])
    acc.set_global_step(16777217.0)  # float32 has no such number.
    assert int(acc.global_step()) == 16777217


@every_kind
def test_num_required_may_be_an_int32(impl):
    with running(impl) as run:
        acc = impl.dense(tf.float32, [])
        for step, required in enumerate([np.int32(1), tf.constant(1)]):
            run(acc.apply_grad(2.0, step))
            assert run(acc.take_grad(required)) == 2.0


@every_kind
@pytest.mark.parametrize(
    "contributor",
    [2, np.int32(2), np.uint8(2), np.array(2), tf.constant(2), tf.Variable(2), True],
    ids=lambda contributor: type(contributor).__name__,
)
def test_a_contributor_is_of_any_integer_type(ours, contributor):
    acc = ours.dense(tf.float32, [1])
    assert bool(acc.apply_contribution([1.0], contributor) == ApplyOutcome.ADDED)
    assert bool(acc.apply_contribution([1.0], int(contributor)) == ApplyOutcome.DUPLICATE)


@every_kind
def test_the_default_step_is_zero(ours):
    acc = ours.dense(tf.float32, [1])
    applies = [lambda: acc.apply_contribution([1.0], 0) == ApplyOutcome.ADDED]
    applies += [lambda: acc.try_apply_grad([1.0]), lambda: acc.apply_grad([1.0]) is None]
    assert all(bool(apply()) for apply in applies)
    acc.take_grad(3)
    assert ApplyOutcome(int(acc.apply_contribution([1.0], 0))) is ApplyOutcome.STALE
    assert not acc.try_apply_grad([1.0])
    acc.apply_grad([1.0])
    assert int(acc.num_dropped()) == 3


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


def test_indexed_slices_are_densified(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.dense(tf.float32, [4, 2])
        table = v1.get_variable("table", initializer=tf.ones([4, 2]), use_resource=True)
        (gradient,) = v1.gradients(tf.reduce_sum(tf.gather(table, [3, 1, 3])), [table])
        assert isinstance(gradient, tf.IndexedSlices)
        session.run(table.initializer)
        session.run(acc.apply_grad(gradient))
        expected = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
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
