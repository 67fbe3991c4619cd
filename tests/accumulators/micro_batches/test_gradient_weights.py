"""Tests of weighted micro-batches without a strategy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import GradientAccumulator
from tf_condacc._ops.native import ops

v1 = tf.compat.v1
ROWS = 6
RANDOM = np.random.default_rng(0)
EXAMPLES = RANDOM.normal(size=[10, 3]).astype(np.float32)
WORDS = RANDOM.integers(0, ROWS, [10])


@pytest.fixture
def variables() -> list[tf.Variable]:
    return [
        tf.Variable([1.0, 2.0, 3.0], name="kernel"),
        tf.Variable(RANDOM.normal(size=[ROWS, 3]).astype(np.float32), name="rows"),
    ]


@pytest.fixture(params=["eager", "function"])
def wrap(request):
    """Returns how methods are called: as they are, or in a function."""
    return tf.function if request.param == "function" else lambda method: method


def gradients_of(variables: list[tf.Variable], part: slice) -> list:
    """Returns the gradients of the mean loss of some examples."""
    with tf.GradientTape() as tape:
        rows = tf.gather(variables[1], WORDS[part])
        loss = tf.reduce_mean(tf.reduce_sum((EXAMPLES[part] * variables[0] - rows) ** 2, 1))
    return tape.gradient(loss, variables)


def assert_is_that_of_one_batch(taken: list, variables: list[tf.Variable], part: slice) -> None:
    dense, sparse = gradients_of(variables, part)
    np.testing.assert_allclose(taken[0], dense, rtol=1e-5)
    np.testing.assert_allclose(
        tf.convert_to_tensor(taken[1]), tf.convert_to_tensor(sparse), rtol=1e-5, atol=1e-6
    )


def test_micro_batches_with_their_sizes_as_weights_equal_one_batch(variables, wrap):
    parts = [(0, 1), (1, 2), (2, 10)]
    accumulator = GradientAccumulator(variables, len(parts))
    accumulate, take = wrap(accumulator.accumulate), wrap(accumulator.take)
    for _ in range(2):  # The weights of a round do not carry over into the next.
        for begin, end in parts:
            accumulate(gradients_of(variables, slice(begin, end)), tf.constant(end - begin))
        assert_is_that_of_one_batch(take(), variables, slice(0, 10))


def test_weight_of_0_adds_nothing_even_if_the_gradient_is_not_finite(variables):
    accumulator = GradientAccumulator(variables[:1], 2)
    accumulator.accumulate([tf.constant([np.nan, np.inf, 1.0])], 0)
    accumulator.accumulate([tf.fill([3], 2.0)], 4)
    assert accumulator.take()[0].numpy().tolist() == [2.0] * 3
    for _ in range(2):  # The mean of nothing is 0, not NaN.
        accumulator.accumulate([tf.constant([np.nan, np.inf, 1.0])], 0)
    assert accumulator.take()[0].numpy().tolist() == [0.0] * 3


def test_without_weights_functions_have_no_operations_for_them(variables):
    accumulator = GradientAccumulator(variables[:1], 2)
    optimizer = v1.train.GradientDescentOptimizer(1.0)

    def types(step) -> set[str]:
        graph = tf.function(step).get_concrete_function().graph
        branches = [graph] + [
            function.graph for function in graph._functions.values() if hasattr(function, "graph")
        ]
        return {op.type for each in branches for op in each.get_operations()}

    gradients = [tf.ones([3])]
    plain = types(lambda: accumulator.apply_gradients(optimizer, gradients))
    assert not {"MulNoNan", "DivNoNan", "IsFinite", "Cast"} & plain, plain
    other = GradientAccumulator(variables[:1], 2)
    weighted = types(lambda: other.apply_gradients(optimizer, gradients, weight=2.0))
    assert "MulNoNan" in weighted


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("is_known", [True, False])
def test_weight_that_is_no_finite_number_of_at_least_0_is_refused(variables, weight, is_known):
    accumulator = GradientAccumulator(variables[:1], 2)
    accumulate = accumulator.accumulate
    if not is_known:
        spec = [[tf.TensorSpec([3])], tf.TensorSpec(None)]
        accumulate = tf.function(accumulate, input_signature=spec)
    accumulate([tf.ones([3])], 2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="gradient_accumulator.*expects a wei"):
        accumulate([tf.ones([3])], weight)
    assert int(accumulator.num_accumulated()) == 1
    assert accumulate([tf.fill([3], 4.0)], 1.0)
    assert accumulator.take()[0].numpy().tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "weight, error, message",
    [
        ("7", TypeError, "a weight that is a finite number of at least 0, got dtype string"),
        (1j, TypeError, "got dtype complex"),
        (object(), TypeError, "got <object"),
        ([1.0, 2.0], ValueError, r"got shape \(2,\)"),
        (10**400, TypeError, "a weight that is a finite number of at least 0, got 1000"),
    ],
)
def test_weight_that_is_no_scalar_number_is_refused(variables, weight, error, message):
    accumulator = GradientAccumulator(variables[:1], 2)
    with pytest.raises(error, match=message):
        accumulator.accumulate([tf.ones([3])], weight)
    assert int(accumulator.num_accumulated()) == 0


@pytest.mark.parametrize("weight", [0.1, Fraction(1, 10)])
def test_weight_that_is_a_python_number_is_not_rounded(weight, wrap):
    accumulator = GradientAccumulator([tf.Variable([0.0], dtype=tf.float64)], 1, "SUM")
    wrap(lambda: accumulator.accumulate([tf.constant([1.0], tf.float64)], weight))()
    assert accumulator.take()[0].numpy() == [0.1]


def test_weighted_gradient_of_an_integer_type_is_refused():
    accumulator = GradientAccumulator([tf.Variable([1, 2], name="n")], 2, reduction_type="SUM")
    with pytest.raises(ValueError, match="variable 'n:0' is of the integer type int32"):
        accumulator.accumulate([tf.constant([1, 2])], 0.5)


def test_first_weight_after_a_function_was_traced_that_takes_without_weights_is_refused(variables):
    accumulator = GradientAccumulator(variables[:1], 1)
    accumulator.accumulate([tf.ones([3])])
    tf.function(accumulator.take)()
    with pytest.raises(RuntimeError, match="would not divide by weights"):
        accumulator.accumulate([tf.ones([3])], 2.0)
    assert int(accumulator.num_accumulated()) == 0


@pytest.mark.narrow(to=lambda dtype, weight: weight == 3.7 or dtype == tf.float32)
@pytest.mark.parametrize(
    "dtype",
    [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128],
    ids=lambda dtype: dtype.name,
)
@pytest.mark.parametrize("weight", [3.7, 0.1, 0.0, 1e6])
def test_products_have_the_bits_of_those_of_tensorflow(dtype, weight):
    values = [RANDOM.normal(size=shape) for shape in ([], [3, 5], [0, 2], [100_001])]
    gradients = [tf.cast(tf.constant(each), dtype) for each in values]
    factor = tf.cast(tf.constant(weight), dtype)
    for wrap in (lambda function: function, tf.function):
        variables = [tf.Variable(tf.zeros_like(each)) for each in gradients]
        accumulator = GradientAccumulator(variables, 1, reduction_type="SUM")
        wrap(accumulator.accumulate)(gradients, tf.constant(weight))
        for ours, gradient in zip(accumulator.take(), gradients, strict=True):
            expected = tf.math.multiply_no_nan(gradient, factor)
            np.testing.assert_array_equal(ours.numpy(), expected.numpy())
            assert ours.dtype == dtype


def test_operation_of_products_refuses_a_factor_that_is_no_scalar():
    for function in (ops.condacc_multiply, tf.function(ops.condacc_multiply)):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="scalar|rank 0"):
            function([tf.ones([2])], tf.zeros([1], tf.float64))
