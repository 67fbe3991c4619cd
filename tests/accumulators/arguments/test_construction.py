"""Tests of the construction of accumulators: arguments, their forms and their errors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource
from tests.support.signatures import parameters

v1 = tf.compat.v1
pytestmark = [every_kind, pytest.mark.usefixtures("graph")]


def run(fetches: Any, feed: Any = None) -> Any:
    with v1.Session() as session:
        return session.run(fetches, feed)


PUBLIC_METHODS = ("__init__", "apply_grad", "take_grad", "num_accumulated", "set_global_step")
FURTHER_METHODS = {
    "dense": {
        "deterministic",
        "try_apply_grad",
        "apply_contribution",
        "try_take_grad",
        "reset",
        "num_dropped",
        "global_step",
    },
    "sparse": {
        "deterministic",
        "try_apply_grad",
        "apply_contribution",
        "apply_indexed_slices_contribution",
        "reset",
        "try_apply_indexed_slices_grad",
        "try_take_grad",
        "try_take_indexed_slices_grad",
        "num_dropped",
        "global_step",
    },
}


@pytest.mark.parametrize("method", PUBLIC_METHODS)
def test_signatures_equal_those_of_the_original(ours, original, method):
    mine, theirs = getattr(ours.public, method), getattr(original.public, method)
    assert parameters(mine) == parameters(theirs)


@pytest.mark.parametrize("method", ["__init__", "num_accumulated", "set_global_step"])
def test_signatures_of_the_base_class_equal_those_of_the_original(ours, original, method):
    assert parameters(getattr(ours.base, method)) == parameters(getattr(original.base, method))


def test_class_signature_equals_that_of_the_original(ours, original):
    assert parameters(ours.public) == parameters(original.public)
    assert parameters(ours.base) == parameters(original.base)


def test_every_public_name_of_the_original_is_there_and_documented(ours, original):
    for mine, theirs in ((ours.public, original.public), (ours.base, original.base)):
        assert mine.__doc__
        for name in (n for n in dir(theirs) if not n.startswith("_")):
            member = inspect.getattr_static(mine, name)
            assert member.__doc__, name
            assert isinstance(member, property) == isinstance(
                inspect.getattr_static(theirs, name), property
            )


def test_names_beyond_the_original_are_the_promised_ones(ours, original):
    beyond = {n for n in dir(ours.public) if not n.startswith("_")} - set(dir(original.public))
    assert beyond == FURTHER_METHODS[ours.kind]


def test_classes_are_exported(ours):
    names = {"ConditionalAccumulatorBase", "ConditionalAccumulator", "build_info", "__version__"}
    assert names <= set(ours.module.__all__)


def test_accumulator_derives_from_the_base_class(impl):
    assert issubclass(impl.public, impl.base)


def test_accumulator_can_be_subclassed(impl):
    class Doubling(impl.dense):
        def apply_grad(self, grad, local_step=0, name=None):
            return super().apply_grad(2.0 * tf.convert_to_tensor(grad), local_step, name)

    accumulator = Doubling(tf.float32, shape=[2], name="doubling")
    applied = accumulator.apply_grad([1.0, 2.0])
    with tf.control_dependencies([applied]):
        taken = accumulator.take_grad(1)
    np.testing.assert_array_equal(run(taken), [2.0, 4.0])


@needs_resource
def test_base_class_can_be_subclassed_over_a_handle(impl):
    class Wrapper(impl.base):
        def __init__(self, inner):
            super().__init__(inner.dtype, [3], inner.accumulator_ref)

    inner = impl.dense(tf.float32, [3], name="inner")
    wrapper = Wrapper(inner)
    assert (wrapper.dtype, wrapper.name) == (tf.float32, "inner")
    assert wrapper.accumulator_ref is inner.accumulator_ref
    with tf.control_dependencies([inner.apply_grad(tf.ones([3]))]):
        count = wrapper.num_accumulated()
    assert run(count) == 1


@pytest.mark.parametrize(
    "dtype", [tf.float32, "float32", np.float32, np.dtype("float32"), tf.float32.as_datatype_enum]
)
def test_every_form_of_dtype_is_accepted_and_returned_unconverted(impl, dtype):
    accumulator = impl.dense(dtype, shape=[1])
    assert accumulator.dtype is dtype
    with tf.control_dependencies([accumulator.apply_grad([3.0])]):
        taken = accumulator.take_grad(1)
    assert taken.dtype == tf.float32
    np.testing.assert_array_equal(run(taken), [3.0])


@pytest.mark.parametrize("dtype", [None, "nonsense"])
def test_unknown_dtype_is_a_type_error(impl, dtype):
    with pytest.raises(TypeError, match=f"Expected DataType for argument 'dtype' not .*{dtype}"):
        impl.dense(dtype)


@pytest.mark.parametrize("dtype", [tf.bool, tf.string, tf.resource, tf.variant])
def test_non_numeric_dtype_is_a_type_error(impl, dtype):
    message = f"dtype.*{dtype.name}.*not in list of allowed values"
    with pytest.raises(TypeError, match=message):
        impl.dense(dtype)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.int32, tf.int64, tf.complex64])
def test_original_has_no_kernel_for_other_numeric_dtypes(original, dtype):
    accumulator = original.dense(dtype, [1], reduction_type="SUM")
    with pytest.raises(tf.errors.InvalidArgumentError, match="No OpKernel was registered"):
        run(accumulator.num_accumulated())


@pytest.mark.parametrize("dtype", [tf.int8, tf.uint8, tf.int16, tf.uint32, tf.uint64])
def test_unsupported_numeric_dtype_is_refused_at_construction(ours, dtype):
    with pytest.raises(TypeError, match="not in list of allowed values"):
        ours.dense(dtype, [1], reduction_type="SUM")


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, "int32", np.int64])
@pytest.mark.parametrize("reduction", [None, "MEAN", b"MEAN"])
def test_mean_of_integers_is_refused_at_construction(ours, dtype, reduction):
    with pytest.raises(ValueError, match="mean.*int(32|64)"):
        ours.dense(dtype, [1], reduction_type=reduction)
    with pytest.raises(ValueError, match="mean.*int(32|64)"):
        ours.dense(dtype, [1])


SHAPES = [None, tf.TensorShape(None), [], 3, [3], (2, 3), [None, 2], [0, 3], tf.TensorShape([4])]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_form_of_shape_is_accepted(impl, shape):
    accumulator = impl.dense(tf.float32, shape)
    expected = tf.TensorShape(shape)
    concrete = [] if expected.rank is None else [5 if d is None else d for d in expected]
    with tf.control_dependencies([accumulator.apply_grad(tf.ones(concrete))]):
        taken = accumulator.take_grad(1)
    assert str(taken.shape) == str(impl.static_shape(shape))
    np.testing.assert_array_equal(run(taken), np.ones(concrete))


@pytest.mark.parametrize("shape", [-1, [-1], [2, -3]])
def test_negative_dimension_is_a_value_error(impl, shape):
    with pytest.raises(ValueError, match="Dimension -. must be >= 0"):
        impl.dense(tf.float32, shape)


IMPOSSIBLE_SHAPES = [([2**32, 2**32], "too large"), ([1] * 255, "too many dimensions")]


@pytest.mark.parametrize(("shape", "message"), IMPOSSIBLE_SHAPES, ids=["large", "deep"])
def test_original_tells_an_impossible_shape_when_run(original, shape, message):
    accumulator = original.dense(tf.float32, shape)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(accumulator.num_accumulated())


@pytest.mark.parametrize(("shape", "message"), IMPOSSIBLE_SHAPES, ids=["large", "deep"])
def test_impossible_shape_is_a_value_error_at_construction(ours, shape, message):
    with pytest.raises(ValueError, match=message):
        ours.dense(tf.float32, shape)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("MEAN", 3.0), (b"MEAN", 3.0), (None, 3.0), ("SUM", 6.0), (b"SUM", 6.0)],
)
def test_reduction_type_forms(impl, reduction, expected):
    accumulator = impl.dense(tf.float32, [], reduction_type=reduction)
    with tf.control_dependencies([accumulator.apply_grad(2.0)]):
        second = accumulator.apply_grad(4.0)
    with tf.control_dependencies([second]):
        taken = accumulator.take_grad(2)
    assert run(taken) == expected


@pytest.mark.parametrize("reduction", ["mean", "sum", "", "MAX", "MEAN "])
def test_unknown_reduction_type_is_a_value_error(impl, reduction):
    with pytest.raises(ValueError, match=f"not in: {impl.reductions}"):
        impl.dense(tf.float32, reduction_type=reduction)


def test_a_bad_reduction_or_dtype_is_explained_in_one_sentence(ours):
    with pytest.raises(ValueError) as found:
        ours.dense(tf.float32, [1], name="mine", reduction_type="mean")
    assert str(found.value).startswith("The reduction_type 'mean' of accumulator 'mine' is not in")
    with pytest.raises(TypeError) as found:
        ours.dense(tf.uint8, [1], name="mine")
    text = str(found.value)
    assert text.startswith("The dtype uint8 of accumulator 'mine' is not in list of allowed values")
    assert "complex128; with reduction_type 'SUM' also int32 and int64." in text


@pytest.mark.parametrize("reduction", [3, 1.5, ["MEAN"]])
def test_reduction_type_that_is_no_string_is_a_type_error(impl, reduction):
    with pytest.raises(TypeError, match="Expected string for argument 'reduction_type' not"):
        impl.dense(tf.float32, reduction_type=reduction)


@pytest.mark.parametrize("shared_name", [None, "", "plain", b"bytes", "v0:0/grad_accum", "a b\t"])
def test_every_form_of_shared_name_is_accepted(impl, shared_name):
    accumulator = impl.dense(tf.float32, [], shared_name=shared_name)
    assert run(accumulator.num_accumulated()) == 0
    assert accumulator.accumulator_ref.op.get_attr("shared_name") == tf.compat.as_bytes(
        shared_name or ""
    )


@pytest.mark.parametrize("shared_name", [3, 1.5, ["a"]])
def test_shared_name_that_is_no_string_is_a_type_error(impl, shared_name):
    with pytest.raises(TypeError, match="Expected string for argument 'shared_name' not"):
        impl.dense(tf.float32, shared_name=shared_name)
