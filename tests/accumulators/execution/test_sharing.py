"""Tests of the sharing of state among accumulators: graphs, sessions and shared_name."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, unique_name
from tests.support.refusals import InvalidArgument, noting, refused

v1 = tf.compat.v1
pytestmark = every_kind


def build(impl, **kwargs):
    """Returns an accumulator with an apply of 2.0, an apply of 4.0 and a count."""
    acc = impl.dense(tf.float32, [], **kwargs)
    return acc, acc.apply_grad(2.0), acc.apply_grad(4.0), acc.num_accumulated()


@pytest.mark.parametrize("shared_name", [None, "shared"])
def test_an_accumulator_belongs_to_its_direct_session(impl, shared_name):
    with tf.Graph().as_default():
        acc, apply, _, count = build(impl, shared_name=shared_name)
        with v1.Session() as first, v1.Session() as second:
            first.run(apply)
            assert (first.run(count), second.run(count)) == (1, 0)
            first.run(acc.apply_grad(6.0))  # The graph may grow.
            assert first.run(acc.take_grad(2)) == 4.0
        with v1.Session() as third:
            assert third.run(count) == 0


@pytest.mark.parametrize(
    ("shared_name", "counts"), [(None, [2, 1]), ("shared", [3, 3])], ids=["private", "shared"]
)
def test_two_imports_of_one_graph_are_one_only_with_a_shared_name(impl, shared_name, counts):
    with tf.Graph().as_default() as source:
        _, apply, _, count = build(impl, name="Q", shared_name=shared_name)
        definition = source.as_graph_def()
    names = [apply.name, count.op.name + ":0"]
    with tf.Graph().as_default(), v1.Session() as session:
        one = tf.import_graph_def(definition, return_elements=names, name="one")
        two = tf.import_graph_def(definition, return_elements=names, name="two")
        for imported in (one, one, two):
            session.run(imported[0])
        assert session.run([one[1], two[1]]) == counts


def test_a_shared_name_joins_the_objects_of_one_graph_and_container(impl):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        first, apply, _, count = build(impl, shared_name="grads")
        second, _, apply_other, other_count = build(impl, shared_name="grads")
        _, _, _, private_count = build(impl)
        with graph.container("box"):
            _, boxed_apply, _, boxed_count = build(impl, shared_name="grads")
        assert first.name != second.name
        session.run([apply, apply_other, boxed_apply])
        counts = [count, other_count, private_count, boxed_count]
        assert session.run(counts) == [2, 2, 0, 1]
        assert session.run(second.take_grad(2)) == 3.0
        session.run(apply)
        assert session.run(count) == 0, "the step is shared too"


def test_original_ignores_another_shape_or_reduction_of_a_shared_name(original):
    with tf.Graph().as_default(), v1.Session() as session:
        first = original.dense(tf.float32, [2], shared_name="grads", reduction_type="SUM")
        session.run(first.apply_grad([1.0, 2.0]))
        second = original.dense(tf.float32, [3], shared_name="grads")
        assert session.run(second.num_accumulated()) == 1
        session.run(first.apply_grad([1.0, 2.0]))
        np.testing.assert_array_equal(session.run(first.take_grad(2)), [2.0, 4.0])


# How the second accumulator of a name differs from the first one, and words for both.
CLASHES = {
    "dtype": (dict(dtype=tf.float64), "float", "double|float64"),
    "shape": (dict(shape=[3]), r"\[2\]", r"\[3\]"),
    "rank": (dict(shape=None), r"\[2\]", "unknown"),
    "partial": (dict(shape=[None]), r"\[2\]", r"\[\?\]"),
    "reduction": (dict(reduction_type="SUM"), "MEAN", "SUM"),
    "global_mean": (dict(reduction_type="GLOBAL_MEAN"), r"\bMEAN", "GLOBAL_MEAN"),
    "kind": (None, "sparse", "dense"),
    "contributors": (3, "reduction_type MEAN", "deterministic with 3"),
    "other contributors": ((4, 3), "deterministic with 4", "deterministic with 3|with 3 contrib"),
}


def clashing(ours, clash, name):
    """Returns functions that make the first and the second accumulator."""
    base = dict(dtype=tf.float32, shape=[2], shared_name=name, reduction_type="MEAN")
    changes = CLASHES[clash][0]
    other = {"dense": "SparseConditionalAccumulator", "sparse": "ConditionalAccumulator"}
    if clash == "kind":
        return lambda: ours.public(**base), lambda: getattr(ours.module, other[ours.kind])(**base)
    if isinstance(changes, dict):
        return lambda: ours.public(**base), lambda: ours.public(**base | changes)
    numbers = changes if isinstance(changes, tuple) else (0, changes)
    return tuple(
        lambda n=n: ours.public.deterministic(n, **base) if n else ours.public(**base)
        for n in numbers
    )


def uses_of(acc):
    gradient = [v1.placeholder_with_default(tf.ones([2], acc.dtype), None)]
    if hasattr(acc, "take_indexed_slices_grad"):
        gradient = [[0, 1], *gradient]
    takes = acc.try_take_grad(1)[0], tf.nest.flatten(acc.take_grad(1))[0]
    others = acc.num_accumulated(), acc.set_global_step(5), acc.reset(5)
    return [acc.apply_grad(*gradient), *takes, *others]


@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
@pytest.mark.parametrize("clash", CLASHES)
def test_a_clash_over_a_shared_name_is_refused_naming_both(ours, clash, eager):
    if clash == "global_mean" and ours.kind == "dense":
        return  # Only sparse accumulators have it.
    for turn in (1, -1):
        name = unique_name("clash")
        make_first, make_second = clashing(ours, clash, name)[::turn]
        words = (re.escape(name), *CLASHES[clash][1:])
        with contextlib.nullcontext() if eager else tf.Graph().as_default():
            first = make_first()
            if eager:
                with refused(InvalidArgument, *words):
                    make_second()
                assert [int(first.num_accumulated()), int(first.global_step())] == [0, 0]
                continue
            uses = uses_of(make_second())
            with v1.Session() as session:
                session.run(first.num_accumulated())
                for use in uses:
                    with noting((turn, use)), refused(InvalidArgument, *words):
                        session.run(use)
                assert session.run([first.num_accumulated(), first.global_step()]) == [0, 0]


def test_equal_arguments_in_other_forms_are_accepted(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        kwargs = dict(shape=[None, 2], shared_name="grads", reduction_type="SUM")
        first = impl.dense(tf.float32, **kwargs)
        second = impl.dense("float32", **kwargs)
        session.run(first.apply_grad(np.ones([3, 2])))
        np.testing.assert_array_equal(session.run(second.take_grad(1)), np.ones([3, 2]))


def test_a_shared_name_is_free_again_when_its_accumulator_was_destroyed(ours):
    name = unique_name("destroyed")
    for value in (2.0, 5.0):  # The cached kernel of the first object makes the second one too.
        acc = ours.dense(tf.float32, [], shared_name=name)
        acc.apply_grad(value)
        assert acc.take_grad(1) == value
        tf.raw_ops.DestroyResourceOp(resource=acc.accumulator_ref, ignore_lookup_error=False)
        del acc


def test_eager_accumulators_that_share_their_kernels_are_told_apart(ours):
    accumulators = [ours.dense(tf.float32, [], shared_name=unique_name("told")) for _ in range(2)]
    for value in (1.0, 2.0, 6.0):
        for i, acc in enumerate(accumulators):
            acc.apply_grad(value + 10 * i)
    assert [int(acc.num_accumulated()) for acc in accumulators] == [3, 3]
    assert [float(acc.take_grad(3)) for acc in accumulators] == [3.0, 13.0]


def test_a_handle_refuses_another_accumulator_that_took_its_name_in_a_session(ours):
    with tf.Graph().as_default(), v1.Session() as session:
        first = ours.dense(tf.float32, [3], shared_name="of_both")
        apply, take = first.apply_grad(tf.ones([3])), first.take_grad(1)
        count = first.num_accumulated()
        destroy = tf.raw_ops.DestroyResourceOp(
            resource=first.accumulator_ref, ignore_lookup_error=False
        )
        session.run(apply)
        session.run(destroy)
        assert session.run(count) == 0, "another one is made in its place"
        session.run(apply)
        np.testing.assert_array_equal(session.run(take), np.ones([3]))
        session.run(destroy)
        second = ours.dense(tf.float32, [5], shared_name="of_both", reduction_type="SUM")
        session.run(second.apply_grad(tf.ones([5])))
        for use in (apply, take, count):
            with refused(InvalidArgument, r"\[5\].*got a .*\[3\].*of_both"):
                session.run(use)
        np.testing.assert_array_equal(session.run(second.take_grad(1)), np.ones([5]))


def test_a_handle_refuses_another_accumulator_that_took_its_name_eagerly(ours):
    name = unique_name("renewed")
    first = ours.dense(tf.float32, [3], shared_name=name)
    tf.raw_ops.DestroyResourceOp(resource=first.accumulator_ref, ignore_lookup_error=False)
    second = ours.dense(tf.float32, [5], shared_name=name)
    second.apply_grad(tf.ones([5]))
    for use in (lambda: first.take_grad(1), lambda: first.apply_grad(tf.ones([3]))):
        with refused(InvalidArgument, r"destroyed.*\[5\].*\[3\]"):
            use()
    assert int(second.num_accumulated()) == 1
