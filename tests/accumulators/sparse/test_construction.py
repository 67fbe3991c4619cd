"""Tests of the public class of sparse accumulators that do not apply to dense ones."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import unique_name
from tests.support.signatures import parameters

v1 = tf.compat.v1
pytestmark = pytest.mark.kinds("sparse")

METHODS = ("apply_indexed_slices_grad", "take_indexed_slices_grad")


@pytest.mark.parametrize("method", METHODS)
def test_signatures_of_the_indexed_slices_equal_those_of_the_original(ours, original, method):
    mine, theirs = getattr(ours.sparse, method), getattr(original.sparse, method)
    assert parameters(mine) == parameters(theirs)


def test_further_methods_have_the_signatures_of_those_they_go_with(ours):
    for method in ("apply_grad", "take_grad", *METHODS):
        of_original = parameters(getattr(ours.sparse, method))
        ours_too = parameters(getattr(ours.sparse, f"try_{method}"))
        assert ours_too[: len(of_original)] == of_original
        further = ["weight"] if "apply" in method else ["global_step"]
        added = ours_too[len(of_original) :]
        assert [(name, default) for name, _, default in added] == [(x, None) for x in further]


def test_class_has_two_public_names(ours):
    assert ours.module.sparse.SparseConditionalAccumulator is ours.sparse
    assert {"SparseConditionalAccumulator", "sparse"} <= set(ours.module.__all__)


def test_dense_and_sparse_accumulators_share_their_base_class(ours):
    assert issubclass(ours.sparse, ours.base)
    for shared in ("num_accumulated", "set_global_step", "num_dropped", "global_step", "dtype"):
        assert inspect.getattr_static(ours.base, shared) is not None
        assert shared not in vars(ours.sparse)


def test_take_returns_a_named_tuple(impl):
    with tf.Graph().as_default():
        taken = impl.sparse(tf.float32, [None, 3]).take_grad(1)
    assert isinstance(taken, tuple)
    assert taken._fields == ("indices", "values", "shape")
    assert [part.dtype for part in taken] == [tf.int64, tf.float32, tf.int64]


def test_take_indexed_slices_returns_indexed_slices(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc = impl.sparse(tf.float32, [5, 2])
        gradient = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([3]))
        applied = acc.apply_indexed_slices_grad(gradient)
        assert isinstance(applied, tf.Operation)
        taken = acc.take_indexed_slices_grad(1)
        assert isinstance(taken, tf.IndexedSlices)
        session.run(applied)
        value = session.run(taken)
    np.testing.assert_array_equal(value.indices, [3])
    np.testing.assert_array_equal(value.values, [[1.0, 2.0]])
    np.testing.assert_array_equal(value.dense_shape, [5, 2])


def test_try_take_indexed_slices_tells_whether_it_took(ours):
    acc = ours.sparse(tf.float32)
    assert not acc.try_take_indexed_slices_grad(1).taken
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    assert acc.try_apply_indexed_slices_grad(slices)
    assert not acc.try_apply_indexed_slices_grad(slices, local_step=-1)
    taken, value = acc.try_take_indexed_slices_grad(1)
    assert taken and isinstance(value, tf.IndexedSlices)
    np.testing.assert_array_equal(value.indices, [3])


def test_names_of_the_ops_may_be_given(impl):
    with tf.Graph().as_default():
        acc = impl.sparse(tf.float32)
        slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
        assert acc.apply_grad([1], [1.0], name="one").name == "one"
        assert acc.apply_indexed_slices_grad(slices, name="two").name == "two"
        assert acc.take_grad(1, name="three").values.op.name == "three"
        assert acc.take_indexed_slices_grad(1, name="four").values.op.name == "four"


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
@pytest.mark.parametrize("shape", [None, [], [7, 3]], ids=str)
def test_rank_of_what_is_taken_is_not_known_statically(impl, in_function, shape):
    def check(acc):
        takes = [acc.take_grad(1)]
        if impl.ours:
            takes.append(acc.try_take_grad(1).value)
        for taken in takes:
            assert taken.values.shape.rank is None
            assert not taken.shape.shape.is_fully_defined()

    if in_function and impl.ours:
        acc = impl.sparse(tf.float32, shape)
        tf.function(lambda: check(acc)).get_concrete_function()
    else:
        with tf.Graph().as_default():
            check(impl.sparse(tf.float32, shape))


def test_original_has_no_global_mean(original):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="GLOBAL_MEAN"):
        original.sparse(tf.float32, reduction_type="GLOBAL_MEAN")


@pytest.mark.parametrize("reduction", ["GLOBAL_MEAN", b"GLOBAL_MEAN"])
def test_global_mean_is_a_reduction(ours, reduction):
    acc = ours.sparse(tf.float32, reduction_type=reduction)
    acc.apply_grad([1], [4.0])
    acc.apply_grad([2], [8.0])
    np.testing.assert_array_equal(acc.take_grad(2).values, [2.0, 4.0])


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_global_mean_of_integers_is_refused(ours, dtype):
    with pytest.raises(ValueError, match="mean.*int(32|64)"):
        ours.sparse(dtype, reduction_type="GLOBAL_MEAN")


CLASHES = {
    "kind": (None, "sparse", "dense"),
    "global_mean": (dict(reduction_type="GLOBAL_MEAN"), "MEAN", "GLOBAL_MEAN"),
    "sum": (dict(reduction_type="SUM"), "MEAN", "SUM"),
    "dtype": (dict(dtype=tf.float64), "float", "double|float64"),
}


@pytest.mark.parametrize("sparse_first", [True, False], ids=["sparse_first", "other_first"])
@pytest.mark.parametrize("clash", CLASHES)
def test_clash_over_a_shared_name_is_refused_naming_both(ours, clash, sparse_first):
    base = dict(dtype=tf.float32, shape=[2], shared_name=unique_name("clash"))
    changes, *texts = CLASHES[clash]
    makers = [
        lambda: ours.sparse(**base),
        lambda: (
            ours.module.ConditionalAccumulator(**base)
            if changes is None
            else ours.sparse(**(base | changes))
        ),
    ]
    make_first, make_second = makers if sparse_first else reversed(makers)
    first = make_first()
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        make_second()
    for text in (base["shared_name"], *texts):
        assert re.search(rf"\b({text})\b", str(caught.value)), text
    assert int(first.num_accumulated()) == 0


@pytest.mark.parametrize("shape", [[None, 2], [9, 2]])
def test_dense_and_sparse_clash_in_one_graph_too(ours, shape):
    with tf.Graph().as_default(), v1.Session() as session:
        sparse = ours.sparse(tf.float32, shape, shared_name="grads")
        dense = ours.module.ConditionalAccumulator(tf.float32, shape, shared_name="grads")
        session.run(sparse.apply_grad([1], [[1.0, 2.0]]))
        for use in (dense.num_accumulated(), dense.take_grad(1), dense.set_global_step(3)):
            with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)dense.*sparse|sparse.*d"):
                session.run(use)
        assert session.run(sparse.num_accumulated()) == 1
        np.testing.assert_array_equal(session.run(sparse.take_grad(1)).values, [[1.0, 2.0]])


def test_original_has_no_eager_mode(original):
    with pytest.raises(RuntimeError, match="does not support eager execution"):
        original.sparse(tf.float32)


def test_original_has_a_reference_as_its_handle(original):
    with tf.Graph().as_default():
        handle = original.sparse(tf.float32).accumulator_ref
    assert handle.dtype == tf.string._as_ref
    assert handle.shape.as_list() == [2]
