"""Tests of the operation that applies a gradient and takes what is accumulated."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.waiting import Background, until
from tf_condacc._ops.native import ops

FAILED = tf.errors.FailedPreconditionError
INVALID = tf.errors.InvalidArgumentError
DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128]
RANDOM = np.random.default_rng(5)


def made(dtype=tf.float32, shape=(3,), gradients=(), **arguments):
    accumulator = tf_condacc.ConditionalAccumulator(dtype, shape, name="a", **arguments)
    for gradient in gradients:
        accumulator.apply_grad(gradient, accumulator.global_step())
    return accumulator


def apply_take(accumulator, gradient, num_required, local_step=2**63 - 1):
    return ops.condacc_dense_apply_take(
        accumulator.accumulator_ref, tf.constant(local_step, tf.int64), gradient, num_required
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_result_has_the_bits_of_an_apply_and_a_take(dtype):
    for size, count in [(0, 2), (7, 1), (7, 3), (100_000, 10)]:
        for reduction in ("MEAN", "SUM"):
            gradients = [tf.cast(RANDOM.normal(size=[size]), dtype) for _ in range(count)]
            one, other = (made(dtype, [size], reduction_type=reduction) for _ in range(2))
            for step in range(2):  # The accumulators expect the number of the last take.
                for accumulator in (one, other):
                    for gradient in gradients[:-1]:
                        accumulator.apply_grad(gradient, step)
                other.apply_grad(gradients[-1], step)
                together = apply_take(one, gradients[-1], count)
                assert together.numpy().tobytes() == other.take_grad(count).numpy().tobytes()
            assert int(one.global_step()) == int(other.global_step()) == 2


def test_executions_of_a_function_follow_one_another():
    accumulator = made(gradients=[[1.0, 2.0, 3.0]])

    @tf.function
    def step(gradient):
        first = apply_take(accumulator, gradient * 2.0, 2)
        return first, apply_take(accumulator, gradient, 1)

    first, second = step(tf.ones([3]))
    np.testing.assert_array_equal(first, [1.5, 2.0, 2.5])
    np.testing.assert_array_equal(second, [1.0, 1.0, 1.0])


def test_too_few_gradients_are_an_error_after_the_gradient_was_added():
    accumulator = made(gradients=[[1.0, 2.0, 3.0]])
    words = r"at least 3 gradients and no pending take, got 2 gradients \(accumulator 'a"
    with pytest.raises(FAILED, match=words):
        apply_take(accumulator, [3.0, 4.0, 5.0], 3)
    assert (int(accumulator.num_accumulated()), int(accumulator.global_step())) == (2, 0)
    np.testing.assert_array_equal(accumulator.take_grad(2), [2.0, 3.0, 4.0])


def test_a_stale_gradient_is_dropped_and_the_others_are_taken():
    accumulator = made(gradients=[[1.0, 2.0, 3.0]])
    accumulator.set_global_step(5)
    taken = apply_take(accumulator, [7.0, 7.0, 7.0], 1, local_step=4)
    np.testing.assert_array_equal(taken, [1.0, 2.0, 3.0])
    assert int(accumulator.num_dropped()) == 1


def test_does_not_overtake_a_take_that_waits():
    number = 0

    def is_refused() -> bool:
        """Executions that come before the take take their own gradient."""
        nonlocal number
        number += 1
        try:
            own = session.run(both, {gradient: np.full(3, number)})
        except FAILED as error:
            assert "no pending take" in str(error)
            return True
        np.testing.assert_array_equal(own, np.full(3, number))
        return False

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [3], name="a")
        take = accumulator.take_grad(2)
        gradient = tf.compat.v1.placeholder(tf.float32, [3])
        both = apply_take(accumulator, gradient, 1)
        waiting = Background(session.run, take)
        until(is_refused, "the take waits")
        assert is_refused()
        np.testing.assert_array_equal(waiting.result(), np.full(3, number - 0.5))


@pytest.mark.parametrize(
    "gradient, num_required, local_step, words",
    [
        ([1.0, 2.0, 3.0], 0, 0, "num_required must be positive, but was 0"),
        ([1.0, 2.0, 3.0], -1, 0, "num_required must be positive, but was -1"),
        ([1.0, 2.0, 3.0], [1], 0, "scalar|rank 0"),
        ([1.0, 2.0, 3.0], 1, [0], "scalar|rank 0"),
        ([1.0, 2.0], 1, 0, r"expected \[3\], got \[2\]"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_added(gradient, num_required, local_step, words):
    accumulator = made(gradients=[[1.0, 2.0, 3.0]])
    with pytest.raises(INVALID, match=words):
        apply_take(accumulator, gradient, num_required, local_step)
    state = (accumulator.num_accumulated(), accumulator.global_step(), accumulator.num_dropped())
    assert [int(each) for each in state] == [1, 0, 0]


def test_other_handles_are_refused():
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [3, 2])
    for other, words in ((sparse, "sparse"), (made(tf.float64), "expected double, got float")):
        with pytest.raises(INVALID, match=words):
            apply_take(other, tf.ones([3]), 1)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_integers_are_summed(dtype):
    accumulator = made(dtype, [2], [tf.constant([1, 2**30], dtype)], reduction_type="SUM")
    taken = apply_take(accumulator, tf.constant([2, 1], dtype), 2)
    assert taken.numpy().tolist() == [3, 2**30 + 1]
