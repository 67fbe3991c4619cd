"""Tests of all dtypes of our dense accumulator on every device: values are exact to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from tests.accumulators.support.numerics import (
    PATHS,
    as_arrived,
    assert_same_bits,
    divided,
    is_narrow,
    make_driver,
    random_gradients,
    total_through,
)

HALVES = (tf.float16, tf.bfloat16)
INTEGERS = (tf.int32, tf.int64)
DTYPES = (*HALVES, tf.float32, tf.float64, tf.complex64, tf.complex128, *INTEGERS)


def model(gradients: np.ndarray, dtype: tf.DType, reduction: str) -> np.ndarray:
    """Sums in order of arrival; float16 and bfloat16 in float32, rounded once at the end."""
    wide = gradients.astype(np.float32) if dtype in HALVES else gradients
    total = as_arrived(wide)
    if reduction == "MEAN":
        total = divided(total, len(gradients))
    return total.astype(dtype.as_numpy_dtype)


@pytest.mark.narrow(to=is_narrow)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_equals_the_numpy_model_to_the_bit(ours, device, seed, dtype, reduction, path):
    if dtype in INTEGERS and reduction == "MEAN":
        with pytest.raises(ValueError, match="MEAN"):
            ours.dense(dtype)
        return
    rng = np.random.default_rng(seed)
    acc = make_driver(ours, path, dtype, reduction, device)
    cases = [(count, size) for size in (0, 1, 7, 1000) for count in (1, 2, 3, 5, 16, 40)]
    cases += [(4, size) for size in (15, 16, 17, 1023, 1025, 2049)]
    cases += [(3, 70001), (12, 70001), (3, 300007)]
    for step, (count, size) in enumerate(cases):
        gradients = random_gradients(rng, dtype, count, size)
        got = total_through(acc, path, gradients, step)
        assert_same_bits(got, model(gradients, dtype, reduction))
    acc.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_take_has_the_dtype_of_the_accumulator(ours, dtype):
    acc = ours.dense(dtype, [2], reduction_type="SUM")
    acc.apply_grad(tf.constant([1, 2], dtype))
    taken = acc.take_grad(1)
    assert taken.dtype == dtype
    tried, value = acc.try_take_grad(1)
    assert value.dtype == dtype and not tried


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_sums_wrap_around_like_numpys(ours, dtype):
    largest = dtype.max
    acc = ours.dense(dtype, [2], reduction_type="SUM")
    for value in ([largest, 5], [1, -7], [1, 0]):
        acc.apply_grad(tf.constant(value, dtype))
    np.testing.assert_array_equal(acc.take_grad(3), [dtype.min + 1, -2])


def test_cpu_kernels_are_registered_for_every_dtype(ours):
    listed = kernels.get_registered_kernels_for_op("Condacc>DenseTake").kernel
    on_cpu = [kernel for kernel in listed if kernel.device_type == "CPU"]
    constrained = {
        value
        for kernel in on_cpu
        for constraint in kernel.constraint
        for value in constraint.allowed_values.list.type
    }
    if constrained:
        assert {dtype.as_datatype_enum for dtype in DTYPES} <= constrained
    else:
        assert on_cpu
