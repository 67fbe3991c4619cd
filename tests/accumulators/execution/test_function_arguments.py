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
def test_each_accumulator_gets_its_own_gradients(kind, place):
    @tf.function
    def step(given: Any, value: Any) -> tf.Tensor:
        return apply(given["accumulators"][0] if place == "in a structure" else given, value)

    accumulators = [new(kind) for _ in range(3)]
    for number, accumulator in enumerate(accumulators):
        given = {"accumulators": [accumulator]} if place == "in a structure" else accumulator
        for count in (1, 2):
            assert step(given, tf.constant(float(number + count))) == count
    assert step.experimental_get_tracing_count() == len(accumulators)
    for number, accumulator in enumerate(accumulators):
        np.testing.assert_array_equal(taken(accumulator), [number + 1.5])


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


class Scaling(ConditionalAccumulator):
    """Multiplies gradients by an attribute of the object or, without one, of the class."""

    scale = 1.0

    def apply_scaled(self, value: Any) -> None:
        self.apply_grad(self.scale * value)


def test_an_accumulator_is_used_with_its_own_attributes():
    step = tf.function(lambda accumulator, value: accumulator.apply_scaled(value))
    accumulators = [Scaling(tf.float32, []) for _ in range(4)]
    accumulators[1].scale = 3.0
    accumulators[2].scale = 5.0
    for _ in range(2):
        for accumulator in accumulators:
            step(accumulator, tf.constant(2.0))
    copied = copy.deepcopy(accumulators[2])
    copied.scale = 7.0
    step(copied, tf.constant(2.0))
    found = [float(accumulator.take_grad(1)) for accumulator in [*accumulators, copied]]
    assert found == [2.0, 6.0, 10.0, 2.0, 14.0]
