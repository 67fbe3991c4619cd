"""Tests of GradientAccumulator without a strategy; those of strategies are in tests/distribute."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.refusals import BadArgument
from tests.support.waiting import Background, until
from tf_condacc import ConditionalAccumulator, GradientAccumulator

v1 = tf.compat.v1
ROWS = 6


def slices(*rows: int, value: float = 1.0) -> tf.IndexedSlices:
    """Returns rows of an embedding with two columns."""
    values = tf.fill([len(rows), 2], tf.constant(value))
    return tf.IndexedSlices(values, tf.constant(rows, tf.int64), tf.constant([ROWS, 2], tf.int64))


@pytest.fixture
def variables() -> list[tf.Variable]:
    return [
        tf.Variable(tf.zeros([3]), name="kernel"),
        tf.Variable(tf.zeros([ROWS, 2]), name="rows"),
    ]


@pytest.fixture
def accumulator(variables) -> GradientAccumulator:
    return GradientAccumulator(variables, num_micro_batches=2)


@pytest.fixture(params=["eager", "function"])
def wrap(request):
    """Returns how methods are called: as they are, or in a function that is traced once."""
    return tf.function if request.param == "function" else lambda method: method


def test_take_of_too_few_micro_batches_is_refused_and_takes_nothing(accumulator, wrap):
    with pytest.raises(RuntimeError, match="'gradient_accumulator' has nothing to take"):
        accumulator.take()
    accumulator.accumulate([tf.ones([3]), slices(1)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="fewer micro-batches"):
        wrap(accumulator.take)()
    assert int(accumulator.num_accumulated()) == 1
    dense, _ = wrap(accumulator.take)(num_required=1)
    assert dense.numpy().tolist() == [1.0] * 3


def test_an_update_with_fewer_micro_batches_of_a_variable_is_refused(variables, accumulator, wrap):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    apply = wrap(lambda: accumulator.apply_gradients(optimizer, [tf.ones([3]), slices(1)]))
    apply()
    first, second = accumulator._replicas.of_this_replica().sums
    second.accumulator.reset(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="fewer micro-batches"):
        apply()
    counts = [int(each.accumulator.num_accumulated()) for each in (first, second)]
    assert counts == [1, 0], "a gradient was applied"
    accumulator.reset()
    assert [bool(apply()) for _ in range(2)] == [False, True]
    assert variables[0].numpy().tolist() == [-1.0] * 3


def test_a_variable_is_updated_before_the_gradients_of_others_are_computed(variables):
    variables = [variables[0], tf.Variable(tf.zeros([3]))]
    accumulator = GradientAccumulator(variables, num_micro_batches=2)
    optimizer = v1.train.GradientDescentOptimizer(1.0)

    late = ConditionalAccumulator(tf.float32, [3])  # A take from it waits without a thread.

    @tf.function
    def step(is_last):
        gradient = tf.cond(is_last, lambda: late.take_grad(1), lambda: tf.ones([3]))
        accumulator.apply_gradients(optimizer, [tf.ones([3]), gradient])

    step(tf.constant(False))
    last = Background(step, tf.constant(True))
    until(lambda: variables[0].numpy().any(), "the update, which needs no other gradient")
    assert not variables[1].numpy().any()
    late.apply_grad(tf.ones([3]))
    last.result()
    assert [each.numpy().tolist() for each in variables] == [[-1.0] * 3] * 2


def test_remainder_makes_an_update_if_there_is_one(variables, accumulator, wrap):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    assert not accumulator.apply_remainder(optimizer)
    accumulator.accumulate([tf.fill([3], 2.0), slices(1)])
    apply_remainder = wrap(lambda: accumulator.apply_remainder(optimizer, clipvalue=1.5))
    assert [bool(apply_remainder()) for _ in range(2)] == [True, False]
    assert variables[0].numpy().tolist() == [-1.5] * 3
    assert variables[1].numpy()[:, 0].tolist() == [0.0, -1.0] + [0.0] * 4
    assert int(accumulator.num_accumulated()) == 0


@pytest.mark.parametrize("kind", [v1.train.GradientDescentOptimizer, v1.train.AdamOptimizer])
def test_reference_variables_get_the_updates_of_resource_variables(kind):
    """The update leaves out the last variable, which has no gradient."""

    def trained(use_resource: bool) -> list:
        with tf.Graph().as_default(), v1.Session() as session:
            variables = [
                v1.get_variable("kernel", initializer=[1.0, 2.0], use_resource=use_resource),
                v1.get_variable("rows", initializer=tf.ones([ROWS, 2]), use_resource=use_resource),
                v1.get_variable("rest", initializer=[0.0], use_resource=use_resource),
            ]
            ids, value = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [])
            rows = tf.nn.embedding_lookup(variables[1], ids)
            optimizer = kind(0.5)
            loss = tf.reduce_sum(rows * variables[0] * value)
            gradients = [each for each, _ in optimizer.compute_gradients(loss, variables)]
            accumulator = GradientAccumulator(variables, 2, skip_non_finite=True)
            updated = accumulator.apply_gradients(
                optimizer, gradients, weight=tf.size(ids), clipvalue=9.0
            )
            remainder = accumulator.apply_remainder(optimizer)
            session.run(v1.global_variables_initializer())
            for number in (1.0, 2.0, np.nan, 3.0, 4.0, 5.0):
                session.run(updated, {ids: [1, 3, 1] if number > 3.0 else [0, 1], value: number})
            assert [session.run(remainder) for _ in range(2)] == [True, False]
            return [each.tolist() for each in session.run(variables)]

    expected = trained(use_resource=True)
    v1.disable_control_flow_v2()
    try:
        assert trained(use_resource=False) == trained(use_resource=True) == expected
    finally:
        v1.enable_control_flow_v2()
    with pytest.raises(TypeError, match="cannot update reference variables, got .*kernel:0"):
        trained(use_resource=False)


@isolated(alone=True)
def test_type_promotion_of_numpy_does_not_change_updates(variables):
    tf.experimental.numpy.experimental_enable_numpy_behavior(dtype_conversion_mode="all")
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    for skips in (False, True):
        accumulator = GradientAccumulator(variables[:1], 2, skip_non_finite=skips)
        apply = tf.function(lambda each, to=accumulator: to.apply_gradients(optimizer, [each]))
        assert [bool(apply(tf.fill([3], x))) for x in (1.0, 3.0)] == [False, True]
    assert variables[0].numpy().tolist() == [-4.0] * 3


@pytest.mark.parametrize("method", ["num_accumulated", "num_skipped", "apply_remainder", "reset"])
def test_function_that_is_traced_before_the_first_accumulate_is_refused(accumulator, method):
    arguments = [v1.train.GradientDescentOptimizer(1.0)] if method == "apply_remainder" else []
    call = tf.function(functools.partial(getattr(accumulator, method), *arguments))
    with pytest.raises(RuntimeError, match=rf"{method}\(\) .* before the first accumulate\(\)"):
        call()
    accumulator.accumulate([tf.ones([3]), slices(1)])
    call()
    assert int(accumulator.num_accumulated()) == (1 if method.startswith("num") else 0)


def test_functions_of_a_saved_model_count_what_they_accumulate(accumulator, tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[])
        def count(self):  # Traced before `push`, because its name comes first.
            return accumulator.num_accumulated()

        @tf.function(input_signature=[])
        def push(self):
            return accumulator.accumulate([tf.ones([3]), slices(1)])

    module = Module()
    module.accumulator = accumulator
    with pytest.raises(RuntimeError, match="before the first accumulate"):
        tf.saved_model.save(module, str(tmp_path))
    module.push()
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    loaded.push()
    assert int(loaded.count()) == 1


def test_what_is_no_optimizer_is_refused(accumulator):
    gradients = [tf.ones([3]), slices(1)]
    with pytest.raises(TypeError, match="'gradient_accumulator'.* got list as the optimizer"):
        accumulator.apply_gradients(gradients, v1.train.GradientDescentOptimizer(1.0))
    assert int(accumulator.num_accumulated()) == 0


ONES = tf.ones([3])
WIDE = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([0]))
VARIABLES = [tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([ROWS, 2]))]
PAIRS = list(zip([ONES, slices(1)], VARIABLES, strict=True))
KEYS = {"kernel": ONES, "rows": slices(1)}
WRONG = {
    "number": ([ONES], ValueError, "expects 2 gradients, one for each variable, got 1. Pass the g"),
    "none": ([None, None], ValueError, "got None for each gradient"),
    "shape": ([tf.ones([4]), slices(1)], ValueError, r"variable 'kernel:0' has shape \(4,\), exp"),
    "dtype": ([tf.ones([3], tf.float64), slices(1)], ValueError, "dtype float64, expected float32"),
    "slices": ([ONES, WIDE], ValueError, r"values of shape \(1, 3\), expected \(None, 2\)"),
    "pairs": (PAIRS, ValueError, "pass the gradients only"),
    "no list": (tf.ones([2, 3]), TypeError, "expects a list of gradients, got .*Tensor"),
    "dictionary": (KEYS, TypeError, r"got dict with the keys \['kernel', 'rows'\]. Pass a list"),
}


@pytest.mark.parametrize("gradients, error, message", WRONG.values(), ids=WRONG)
def test_wrong_gradients_are_refused_and_nothing_is_accumulated(
    accumulator, wrap, gradients, error, message
):
    accumulator.accumulate([ONES, slices(1)])
    with pytest.raises(error, match=message) as raised:
        wrap(lambda: accumulator.accumulate(gradients))()
    assert "GradientAccumulator 'gradient_accumulator'" in str(raised.value)
    assert int(accumulator.num_accumulated()) == 1
    assert accumulator.accumulate([ONES, slices(1)])


def test_row_that_the_variable_does_not_have_is_refused_before_dense_gradients_count(
    accumulator, wrap
):
    accumulator.accumulate([tf.ones([3]), slices(1)])
    accumulate = wrap(accumulator.accumulate)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'gradient_accumulator/rows'"):
        accumulate([tf.ones([3]), slices(ROWS)])
    assert int(accumulator.num_accumulated()) == 1
    assert accumulator.accumulate([tf.ones([3]), slices(1)])


def test_wrong_shape_that_is_unknown_at_tracing_is_refused_with_the_name_of_the_variable(
    accumulator,
):
    unknown = tf.TensorSpec(None)
    accumulate = tf.function(
        lambda gradient: accumulator.accumulate([gradient, slices(1)]), input_signature=[unknown]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="'gradient_accumulator/kernel'"):
        accumulate(tf.ones([4]))


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"variables": []}, ValueError, "at least one variable, got none"),
        ({"variables": tf.Variable([1.0, 2.0])}, TypeError, "expects a list of variables, got Res"),
        ({"variables": [tf.ones([2])]}, TypeError, "a list of variables, got EagerTensor in it"),
        ({"num_micro_batches": 0}, ValueError, "at least 1, got 0"),
        ({"num_micro_batches": 2.7}, TypeError, "an integer num_micro_batches, got 2.7"),
        ({"num_micro_batches": None}, TypeError, "an integer num_micro_batches, got None"),
        ({"reduction_type": "MAX"}, ValueError, "'MEAN' or 'SUM', got 'MAX'"),
    ],
)
def test_wrong_arguments_are_refused(variables, arguments, error, message):
    with pytest.raises(error, match=message):
        GradientAccumulator(**{"variables": variables, "num_micro_batches": 2} | arguments)


def test_an_update_of_rows_leaves_a_variable_that_is_read_without_a_copy():
    """TensorFlow copies a variable on each read once rows of it were updated."""
    skip_on_gpu("a value that is read is copied to the host's memory")

    def read(variable: tf.Variable) -> tuple[tf.Tensor, int]:
        value = variable.read_value()
        return value, np.asarray(memoryview(value)).ctypes.data

    variable = tf.Variable(tf.ones([ROWS, 2]))
    accumulator = GradientAccumulator([variable], 1)
    optimizer = v1.train.GradientDescentOptimizer(0.5)

    @tf.function
    def step() -> None:
        accumulator.apply_gradients(optimizer, [slices(0, 5)])

    for apply in (lambda: accumulator.apply_gradients(optimizer, [slices(0, 5)]), step):
        apply()
        (first, one), (second, other) = read(variable), read(variable)
        assert one == other
    assert first.numpy()[:, 0].tolist() == second.numpy()[:, 0].tolist() == [0, 1, 1, 1, 1, 0]


def test_further_arguments_reach_the_optimizer_once_per_update(variables, wrap):
    step = tf.Variable(0, dtype=tf.int64)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    accumulator = GradientAccumulator(variables[:1], num_micro_batches=2)
    apply = wrap(
        lambda gradient: accumulator.apply_gradients(optimizer, [gradient], global_step=step)
    )
    for value in (1.0, 3.0, 5.0):
        apply(tf.fill([3], tf.constant(value)))
    assert int(step) == 1
    accumulator.apply_remainder(optimizer, global_step=step)
    assert int(step) == 2
    assert variables[0].numpy().tolist() == [-7.0] * 3


def test_an_accumulator_in_a_method_of_its_optimizer_is_refused(variables, wrap):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    accumulator = GradientAccumulator(variables[:1], num_micro_batches=2)
    optimizer.apply_gradients = lambda pairs: accumulator.apply_gradients(
        optimizer, [gradient for gradient, _ in pairs]
    )
    apply = wrap(lambda gradient: optimizer.apply_gradients([(gradient, variables[0])]))
    with pytest.raises(RuntimeError, match="in a method of the optimizer that makes its update"):
        for _ in range(2):
            apply(tf.ones([3]))


def test_the_number_of_micro_batches_may_be_a_function_of_the_update(wrap):
    variable = tf.Variable(0.0)
    accumulator = GradientAccumulator([variable], lambda update: update + 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    apply = wrap(lambda: accumulator.apply_gradients(optimizer, [tf.constant(1.0)]))
    assert [bool(apply()) for _ in range(6)] == [True, False, True, False, False, True]
    apply()
    accumulator.reset()  # The number of updates stays.
    assert [bool(apply()) for _ in range(4)] == [False, False, False, True]
    apply()
    assert accumulator.apply_remainder(optimizer)
    assert [bool(apply()) for _ in range(6)] == [False, False, False, False, False, True]


WRONG_NUMBERS = [(0, ValueError), (1.5, TypeError), (None, TypeError)]


@pytest.mark.parametrize("number, error", [*WRONG_NUMBERS, ("variable", BadArgument)])
def test_a_function_that_returns_no_number_of_micro_batches_is_refused(wrap, number, error):
    zero = tf.Variable(0)
    returned = zero if number == "variable" else number
    accumulator = GradientAccumulator([tf.Variable(0.0)], lambda update: returned)
    with pytest.raises(error, match="num_micro_batches"):
        wrap(lambda: accumulator.accumulate([tf.constant(1.0)]))()
