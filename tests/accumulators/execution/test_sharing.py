"""Tests of the sharing of state among accumulators: graphs, sessions and shared_name."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name

v1 = tf.compat.v1
pytestmark = every_kind


def build(impl, **kwargs):
    """Returns an accumulator with an apply of 2.0, an apply of 4.0 and a count."""
    acc = impl.dense(tf.float32, [], **kwargs)
    return acc, acc.apply_grad(2.0), acc.apply_grad(4.0), acc.num_accumulated()


def test_private_accumulator_belongs_to_the_session(impl):
    with tf.Graph().as_default():
        _, apply, _, count = build(impl)
        with v1.Session() as first, v1.Session() as second:
            first.run(apply)
            assert (first.run(count), second.run(count)) == (1, 0)
        with v1.Session() as third:
            assert third.run(count) == 0


def test_private_accumulator_survives_graph_extension(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        acc, apply, _, _ = build(impl)
        session.run(apply)
        later = acc.apply_grad(6.0)
        session.run(later)
        assert session.run(acc.num_accumulated()) == 2
        assert session.run(acc.take_grad(2)) == 4.0


def test_private_accumulators_of_one_graph_are_separate(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        _, apply, _, count = build(impl)
        _, _, _, other_count = build(impl)
        session.run(apply)
        assert session.run([count, other_count]) == [1, 0]


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


def test_shared_name_joins_the_objects_of_one_graph(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        first, apply, _, count = build(impl, shared_name="grads")
        second, _, apply_other, other_count = build(impl, shared_name="grads")
        assert first.name != second.name
        session.run([apply, apply_other])
        assert session.run([count, other_count]) == [2, 2]
        assert session.run(second.take_grad(2)) == 3.0
        session.run(apply)
        assert session.run(count) == 0, "the step is shared too"


def test_shared_name_does_not_join_direct_sessions(impl):
    with tf.Graph().as_default():
        _, apply, _, count = build(impl, shared_name="grads")
        with v1.Session() as first, v1.Session() as second:
            first.run(apply)
            assert (first.run(count), second.run(count)) == (1, 0)


def test_container_is_part_of_the_key(impl):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        _, apply, _, count = build(impl, shared_name="grads")
        with graph.container("box"):
            _, boxed_apply, _, boxed_count = build(impl, shared_name="grads")
            _, _, _, boxed_again = build(impl, shared_name="grads")
        session.run(apply)
        session.run(boxed_apply)
        session.run(boxed_apply)
        assert session.run([count, boxed_count, boxed_again]) == [1, 2, 2]


def test_equal_shared_names_with_equal_arguments_are_accepted(impl):
    with tf.Graph().as_default(), v1.Session() as session:
        kwargs = dict(shape=[None, 2], shared_name="grads", reduction_type="SUM")
        first = impl.dense(tf.float32, **kwargs)
        second = impl.dense("float32", **kwargs)
        session.run(first.apply_grad(np.ones([3, 2])))
        np.testing.assert_array_equal(session.run(second.take_grad(1)), np.ones([3, 2]))


def test_original_ignores_another_shape_or_reduction_of_a_shared_name(original):
    with tf.Graph().as_default(), v1.Session() as session:
        first = original.dense(tf.float32, [2], shared_name="grads", reduction_type="SUM")
        session.run(first.apply_grad([1.0, 2.0]))
        second = original.dense(tf.float32, [3], shared_name="grads")
        assert session.run(second.num_accumulated()) == 1
        session.run(first.apply_grad([1.0, 2.0]))
        np.testing.assert_array_equal(session.run(first.take_grad(2)), [2.0, 4.0])


CLASHES = {
    "dtype": (dict(dtype=tf.float64), "float", "double|float64"),
    "shape": (dict(shape=[3]), r"\[2\]", r"\[3\]"),
    "rank": (dict(shape=None), r"\[2\]", "unknown"),
    "partial": (dict(shape=[None]), r"\[2\]", r"\[\?\]"),
    "reduction": (dict(reduction_type="SUM"), "MEAN", "SUM"),
}


@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
@pytest.mark.parametrize("clash", CLASHES)
def test_clash_over_a_shared_name_is_refused_naming_both(ours, clash, eager):
    name = unique_name(f"clash_{clash}")
    base = dict(dtype=tf.float32, shape=[2], reduction_type="MEAN", shared_name=name)
    changes, had, wanted = CLASHES[clash]
    with contextlib.nullcontext() if eager else tf.Graph().as_default():
        first = ours.dense(**base)
        apply = first.apply_grad([1.0, 2.0])
        if eager:
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                ours.dense(**(base | changes))
            remaining = first.take_grad(1).numpy()
        else:
            with v1.Session() as session:
                session.run(apply)
                second = ours.dense(**(base | changes))
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(second.num_accumulated())
                assert session.run(first.num_accumulated()) == 1
                remaining = session.run(first.take_grad(1))
    np.testing.assert_array_equal(remaining, [1.0, 2.0])
    for text in (name, had, wanted):
        assert re.search(text, str(caught.value)), f"{text!r} is not in: {caught.value}"


def test_shared_name_is_free_again_when_its_accumulator_was_destroyed(ours):
    name = unique_name("destroyed")
    for value in (2.0, 5.0):  # The cached kernel of the first object makes the second one too.
        acc = ours.dense(tf.float32, [], shared_name=name)
        acc.apply_grad(value)
        assert acc.take_grad(1) == value
        tf.raw_ops.DestroyResourceOp(resource=acc.accumulator_ref, ignore_lookup_error=False)
        del acc


@needs_resource
def test_eager_accumulators_that_share_their_kernels_are_told_apart(ours):
    accumulators = [ours.dense(tf.float32, [], shared_name=unique_name("told")) for _ in range(2)]
    for value in (1.0, 2.0, 6.0):
        for i, acc in enumerate(accumulators):
            acc.apply_grad(value + 10 * i)
    assert [int(acc.num_accumulated()) for acc in accumulators] == [3, 3]
    assert [float(acc.take_grad(3)) for acc in accumulators] == [3.0, 13.0]


def test_handle_op_refuses_an_accumulator_of_another_shape_or_reduction_under_its_name(ours):
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
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=r"of_both.*\[5\].*of_both.*\[3\]"
            ):
                session.run(use)
        np.testing.assert_array_equal(session.run(second.take_grad(1)), np.ones([5]))


@needs_resource
def test_eager_handle_refuses_an_accumulator_of_another_shape_under_its_name(ours):
    name = unique_name("renewed")
    first = ours.dense(tf.float32, [3], shared_name=name)
    tf.raw_ops.DestroyResourceOp(resource=first.accumulator_ref, ignore_lookup_error=False)
    second = ours.dense(tf.float32, [5], shared_name=name)
    second.apply_grad(tf.ones([5]))
    for use in (lambda: first.take_grad(1), lambda: first.apply_grad(tf.ones([3]))):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"destroyed.*\[5\].*\[3\]"):
            use()
    assert int(second.num_accumulated()) == 1
