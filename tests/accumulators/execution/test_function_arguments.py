"""Tests of accumulators as arguments of functions."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import ConditionalAccumulator, SparseConditionalAccumulator

ALWAYS = 1 << 60


def new(kind: type, dtype: tf.DType = tf.float32, **options: Any) -> Any:
    return kind(dtype, [3, 2], **options)


def apply(accumulator: Any, value: Any) -> tf.Tensor:
    """Applies a gradient of one row, or of three equal ones, and returns how many there are."""
    values = tf.cast(tf.fill([1, 2], value), accumulator.dtype)
    if isinstance(accumulator, ConditionalAccumulator):
        accumulator.apply_grad(tf.tile(values, [3, 1]), local_step=ALWAYS)
    else:
        accumulator.apply_grad([1], values, local_step=ALWAYS)
    return accumulator.num_accumulated()


def taken(accumulator: Any) -> np.ndarray:
    value = accumulator.take_grad(1)
    return np.unique(value if isinstance(value, tf.Tensor) else value.values)


@pytest.fixture(params=[ConditionalAccumulator, SparseConditionalAccumulator])
def kind(request) -> type:
    return request.param


@pytest.mark.parametrize("place", ["itself", "in a structure"])
def test_accumulators_of_one_kind_share_a_trace_and_get_their_own_gradients(kind, place):
    @tf.function
    def step(given: Any, value: Any) -> tf.Tensor:
        return apply(given["accumulators"][0] if place == "in a structure" else given, value)

    accumulators = [new(kind) for _ in range(30)]
    for number, accumulator in enumerate(accumulators):
        given = {"accumulators": [accumulator]} if place == "in a structure" else accumulator
        for count in (1, 2):
            assert step(given, tf.constant(float(number + count))) == count
    assert step.experimental_get_tracing_count() == 1
    for number, accumulator in enumerate(accumulators):
        np.testing.assert_array_equal(taken(accumulator), [number + 1.5])


def test_other_kinds_have_other_traces():
    step = tf.function(apply)
    accumulators = [
        new(ConditionalAccumulator),
        new(ConditionalAccumulator, tf.float64),
        new(ConditionalAccumulator, reduction_type="SUM"),
        new(SparseConditionalAccumulator),
        ConditionalAccumulator(tf.float32, [None, 2]),
    ]
    for _ in range(2):
        for number, accumulator in enumerate(accumulators):
            step(accumulator, tf.constant(float(number)))
    assert step.experimental_get_tracing_count() == len(accumulators)
    expected = [0.0, 1.0, 4.0, 3.0, 4.0]
    for accumulator, value in zip(accumulators, expected, strict=True):
        np.testing.assert_array_equal(taken(accumulator), [value])


def test_methods_of_an_argument_name_it_in_errors(kind):
    @tf.function
    def take_too_many(accumulator: Any) -> Any:
        return accumulator.take_grad(0)

    with pytest.raises(tf.errors.InvalidArgumentError, match="num_required.*accumulator"):
        take_too_many(new(kind, name="mine"))


def test_a_trace_keeps_no_accumulator_alive(kind):
    step = tf.function(apply)
    accumulator = new(kind)
    step(accumulator, tf.constant(1.0))
    weak = weakref.ref(accumulator)
    del accumulator
    gc.collect()
    assert weak() is None
    assert step(new(kind), tf.constant(1.0)) == 1
    assert step.experimental_get_tracing_count() == 1


class Scaling(ConditionalAccumulator):
    """Multiplies gradients by an attribute of the object or, without one, of the class."""

    scale = 1.0

    def apply_scaled(self, value: Any) -> None:
        self.apply_grad(self.scale * value)


def test_an_accumulator_with_attributes_of_the_program_has_a_trace_of_its_own():
    step = tf.function(lambda accumulator, value: accumulator.apply_scaled(value))
    accumulators = [Scaling(tf.float32, []) for _ in range(4)]
    accumulators[1].scale = 3.0
    accumulators[2].scale = 5.0
    for _ in range(2):
        for accumulator in accumulators:
            step(accumulator, tf.constant(2.0))
    assert step.experimental_get_tracing_count() == 3
    copied = copy.deepcopy(accumulators[2])
    copied.scale = 7.0
    step(copied, tf.constant(2.0))
    found = [float(accumulator.take_grad(1)) for accumulator in [*accumulators, copied]]
    assert found == [2.0, 6.0, 10.0, 2.0, 14.0]


def test_branches_and_loops_pass_accumulators_on(kind):
    @tf.function
    def step(first: Any, second: Any, takes_first: Any) -> Any:
        chosen = tf.cond(takes_first, lambda: first, lambda: second)

        def body(number: Any, accumulator: Any) -> Any:
            apply(accumulator, tf.cast(number, tf.float32))
            return number + 1, accumulator

        return tf.while_loop(lambda number, _: number < 3, body, [0, chosen])[1]

    first, second = new(kind), new(kind)
    returned = step(first, second, tf.constant(False))
    assert [int(each.num_accumulated()) for each in (first, second, returned)] == [0, 3, 3]
    step(first, second, tf.constant(True))
    assert [int(each.num_accumulated()) for each in (first, second)] == [3, 3]
    np.testing.assert_array_equal(taken(returned), [1.0])
