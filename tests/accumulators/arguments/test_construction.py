"""Tests of the classes and their constructors: signatures, arguments, and errors of arguments."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import running
from tests.support.accumulator_support import every_kind, needs_resource
from tests.support.refusals import BadArgument, noting, refused
from tests.support.signatures import parameters

pytestmark = every_kind
METHODS = ["apply_grad", "take_grad"]
SLICES = ["apply_indexed_slices_grad", "take_indexed_slices_grad"]
BASE_METHODS = ["__init__", "num_accumulated", "set_global_step"]
FURTHER = {"deterministic", "try_apply_grad", "apply_contribution", "try_take_grad"}
FURTHER |= {"reset", "num_dropped", "global_step"}
FURTHER_OF_SLICES = {"apply_indexed_slices_contribution", *(f"try_{each}" for each in SLICES)}


def test_signatures_equal_those_of_the_original(ours, original):
    pairs = [(ours.public, original.public), (ours.base, original.base)]
    for mine, theirs in pairs:
        assert parameters(mine) == parameters(theirs)
    methods = BASE_METHODS + METHODS + SLICES * (ours.kind == "sparse")
    pairs += [(getattr(ours.public, m), getattr(original.public, m)) for m in methods]
    pairs += [(getattr(ours.base, m), getattr(original.base, m)) for m in BASE_METHODS]
    for mine, theirs in pairs:
        assert parameters(mine) == parameters(theirs)


def test_further_methods_have_the_signatures_of_those_they_go_with(ours):
    for method in METHODS + SLICES * (ours.kind == "sparse"):
        of_original = parameters(getattr(ours.public, method))
        of_further = parameters(getattr(ours.public, f"try_{method}"))
        assert of_further[: len(of_original)] == of_original
        further = "weight" if "apply" in method else "global_step"
        added = of_further[len(of_original) :]
        assert [(name, default) for name, _, default in added] == [(further, None)]


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
    assert beyond == FURTHER | (FURTHER_OF_SLICES if ours.kind == "sparse" else set())


def test_classes_are_exported_and_share_their_base_class(impl):
    assert issubclass(impl.public, impl.base)
    if impl.ours:
        assert getattr(impl.module, impl.public.__name__) is impl.public
        assert impl.module.sparse.SparseConditionalAccumulator
        names = {"ConditionalAccumulatorBase", impl.public.__name__, "sparse", "build_info"}
        assert names | {"__version__"} <= set(impl.module.__all__)
        assert impl.module.build_info()["tensorflow"] == tf.__version__
        assert impl.module.build_info()["version"] == impl.module.__version__


def test_an_accumulator_can_be_subclassed(impl):
    class Doubling(impl.dense):
        def apply_grad(self, grad, local_step=0, name=None):
            return super().apply_grad(2.0 * tf.convert_to_tensor(grad), local_step, name)

    with running(impl) as run:
        accumulator = Doubling(tf.float32, shape=[2], name="doubling")
        run(accumulator.apply_grad([1.0, 2.0]))
        np.testing.assert_array_equal(run(accumulator.take_grad(1)), [2.0, 4.0])


@needs_resource
def test_the_base_class_can_be_subclassed_over_a_handle(impl, graph):
    class Wrapper(impl.base):
        def __init__(self, inner):
            super().__init__(inner.dtype, [3], inner.accumulator_ref)

    inner = impl.dense(tf.float32, [3], name="inner")
    wrapper = Wrapper(inner)
    assert (wrapper.dtype, wrapper.name) == (tf.float32, "inner")
    assert wrapper.accumulator_ref is inner.accumulator_ref
    with tf.control_dependencies([inner.apply_grad(tf.ones([3]))]):
        count = wrapper.num_accumulated()
    with tf.compat.v1.Session() as session:
        assert session.run(count) == 1


@pytest.mark.parametrize(
    "dtype", [tf.float32, "float32", np.float32, np.dtype("float32"), tf.float32.as_datatype_enum]
)
def test_every_form_of_dtype_is_accepted_and_returned_unconverted(impl, dtype):
    with running(impl) as run:
        accumulator = impl.dense(dtype, shape=[1])
        assert accumulator.dtype is dtype
        run(accumulator.apply_grad([3.0]))
        taken = accumulator.take_grad(1)
        assert taken.dtype == tf.float32
        np.testing.assert_array_equal(run(taken), [3.0])


SHAPES = [None, tf.TensorShape(None), [], 3, (2, 3), [None, 2], [0, 3], tf.TensorShape([4])]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_form_of_shape_is_accepted(impl, graph, shape):
    accumulator = impl.dense(tf.float32, shape)
    expected = tf.TensorShape(shape)
    concrete = [] if expected.rank is None else [5 if d is None else d for d in expected]
    with tf.control_dependencies([accumulator.apply_grad(tf.ones(concrete))]):
        taken = accumulator.take_grad(1)
    assert str(taken.shape) == str(impl.static_shape(shape))
    with tf.compat.v1.Session() as session:
        np.testing.assert_array_equal(session.run(taken), np.ones(concrete))


@pytest.mark.parametrize(
    ("reduction", "expected"), [("MEAN", 3.0), (b"MEAN", 3.0), (None, 3.0), ("SUM", 6.0)]
)
def test_every_form_of_reduction_type_is_accepted(impl, reduction, expected):
    with running(impl) as run:
        accumulator = impl.dense(tf.float32, [], reduction_type=reduction)
        for value in (2.0, 4.0):
            run(accumulator.apply_grad(value))
        assert run(accumulator.take_grad(2)) == expected


@pytest.mark.kinds("sparse")
@pytest.mark.parametrize("reduction", ["GLOBAL_MEAN", b"GLOBAL_MEAN"])
def test_a_global_mean_divides_by_all_gradients(ours, reduction):
    acc = ours.sparse(tf.float32, reduction_type=reduction)
    acc.apply_grad([1], [4.0])
    acc.apply_grad([2], [8.0])
    np.testing.assert_array_equal(acc.take_grad(2).values, [2.0, 4.0])


@pytest.mark.parametrize("shared_name", [None, "", "plain", b"bytes", "v0:0/grad_accum", "a b\t"])
def test_every_form_of_shared_name_is_accepted(impl, graph, shared_name):
    op = impl.dense(tf.float32, [], shared_name=shared_name).accumulator_ref.op
    assert op.get_attr("shared_name") == tf.compat.as_bytes(shared_name or "")


NO_STRING = "Expected string for argument '{}' not"
# Arguments that both libraries refuse, the type of the error and words of it.
REFUSED = [
    *[({"dtype": d}, TypeError, f"argument 'dtype' not .*{d}") for d in (None, "nonsense")],
    *[({"dtype": d}, TypeError, f"dtype.*{d.name}.*not in list of allowed") for d in (tf.bool,)],
    *[({"dtype": d}, TypeError, "not in list of allowed") for d in (tf.string, tf.resource)],
    *[({"shape": s}, ValueError, "Dimension -. must be >= 0") for s in (-1, [-1], [2, -3])],
    *[({"reduction_type": r}, ValueError, "not in: ") for r in ("mean", "", "MAX", "MEAN ")],
    *[({"reduction_type": r}, TypeError, NO_STRING.format("reduction_type")) for r in (3, ["M"])],
    *[({"shared_name": n}, TypeError, NO_STRING.format("shared_name")) for n in (3, ["a"])],
]
IMPOSSIBLE = [([2**32, 2**32], "too large"), ([1] * 255, "too many dimensions")]
REFUSED_BY_OURS = [
    *[
        ({"dtype": d, "reduction_type": "SUM"}, TypeError, "not in list")
        for d in ("int8", "uint64")
    ],
    *[({"dtype": d}, ValueError, "mean.*int(32|64)") for d in (tf.int32, "int64")],
    *[({"dtype": tf.int32, "reduction_type": r}, ValueError, "mean") for r in (None, b"MEAN")],
    *[({"shape": shape}, ValueError, words) for shape, words in IMPOSSIBLE],
]


def test_a_bad_argument_is_refused(impl, graph):
    for arguments, error, words in REFUSED + REFUSED_BY_OURS * impl.ours:
        words = f"not in: {impl.reductions}" if words == "not in: " else words
        with noting(arguments), refused(error, words):
            impl.dense(**{"dtype": tf.float32} | arguments)


@pytest.mark.kinds("sparse")
def test_a_global_mean_of_integers_is_refused(ours):
    with pytest.raises(ValueError, match="mean.*int32"):
        ours.sparse(tf.int32, reduction_type="GLOBAL_MEAN")


def test_the_original_refuses_it_when_it_runs(original, graph):
    cases = [({"shape": shape}, words) for shape, words in IMPOSSIBLE]
    for dtype in (tf.bfloat16, tf.int32, tf.int64, tf.complex64):
        cases.append(({"dtype": dtype, "reduction_type": "SUM"}, "No OpKernel was registered"))
    for arguments, words in cases:
        accumulator = original.dense(**{"dtype": tf.float32} | arguments)
        with noting(arguments), refused(tf.errors.InvalidArgumentError, words):
            with tf.compat.v1.Session() as session:
                session.run(accumulator.num_accumulated())


def test_a_bad_reduction_or_dtype_is_explained_in_one_sentence(ours):
    with pytest.raises(ValueError) as found:
        ours.dense(tf.float32, [1], name="mine", reduction_type="mean")
    assert str(found.value).startswith("The reduction_type 'mean' of accumulator 'mine' is not in")
    with pytest.raises(TypeError) as found:
        ours.dense(tf.uint8, [1], name="mine")
    text = str(found.value)
    assert text.startswith("The dtype uint8 of accumulator 'mine' is not in list of allowed values")
    assert "complex128; with reduction_type 'SUM' also int32 and int64." in text


def test_the_operation_refuses_what_the_class_refuses(ours):
    for arguments, words in [
        ({"dtype": tf.int32, "shape": [2], "reduction_type": "MEAN"}, "(?s)MEAN.*int|int.*MEAN"),
        ({"shape": [2**32, 2**32]}, "too large"),
        ({"shape": [1] * 255}, "too many dimensions|over the limit of 254"),
        ({"dtype": tf.bool, "shape": [2]}, ""),
    ]:
        usual = {"dtype": tf.float32, "reduction_type": "SUM", "container": "", "shared_name": ""}
        with noting(arguments), refused(BadArgument, words):
            handle = ours.raw_make(**usual | {"anonymous": False} | arguments)
            ours.ops.condacc_accumulator_num_accumulated(handles=[handle])


@pytest.mark.kinds("sparse")
def test_what_only_the_original_lacks(original):
    with pytest.raises(RuntimeError, match="does not support eager execution"):
        original.sparse(tf.float32)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="GLOBAL_MEAN"):
            original.sparse(tf.float32, reduction_type="GLOBAL_MEAN")
        handle = original.sparse(tf.float32).accumulator_ref
    assert handle.dtype == tf.string._as_ref  # The handle is a reference.
    assert handle.shape.as_list() == [2]
