"""Tests of the arguments and results of contributions: ids, outcomes, types and static shapes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.support.contribution_drivers import ADDED, AHEAD, DUPLICATE, STALE
from tests.support.accumulator_support import every_kind
from tf_condacc import ApplyOutcome

v1 = tf.compat.v1
pytestmark = every_kind


def test_the_outcomes_are_public_and_are_numbers():
    assert {o.name: int(o) for o in tf_condacc.ApplyOutcome} == {
        "ADDED": ADDED,
        "STALE": STALE,
        "DUPLICATE": DUPLICATE,
        "AHEAD": AHEAD,
    }
    assert all(tf_condacc.ApplyOutcome)


def eager_of(ours):
    return ours.dense(tf.float32, [1])


def test_outcomes_compare_with_tensors(ours):
    acc = eager_of(ours)
    assert bool(acc.apply_contribution([1.0], 1) == ApplyOutcome.ADDED)
    assert bool(acc.apply_contribution([1.0], 1) == ApplyOutcome.DUPLICATE)
    assert ApplyOutcome(int(acc.apply_contribution([1.0], 1, -1))) is ApplyOutcome.STALE


@pytest.mark.parametrize(
    "contributor",
    [2, np.int32(2), np.uint8(2), np.array(2), tf.constant(2), tf.Variable(2), True],
    ids=lambda c: type(c).__name__,
)
def test_contributors_of_every_integer_type(ours, contributor):
    acc = eager_of(ours)
    assert int(acc.apply_contribution([1.0], contributor)) == ADDED
    assert int(acc.apply_contribution([1.0], int(contributor))) == DUPLICATE


@pytest.mark.parametrize("contributor", [2.0, "two", np.float64(2), [2.5]], ids=repr)
def test_contributors_that_are_no_integers_are_refused(ours, contributor):
    acc = eager_of(ours)
    with pytest.raises(TypeError, match="contributor must be an integer, got"):
        acc.apply_contribution([1.0], contributor)
    assert int(acc.num_accumulated()) == 0


def test_the_error_of_a_contributor_that_is_no_integer_names_the_accumulator(ours, graph):
    acc = ours.dense(tf.float32, [1], name="named")
    with pytest.raises(TypeError, match=r"got float32 \(accumulator 'named'\)"):
        acc.apply_contribution([1.0], 2.0)


def test_contributors_that_are_no_scalars_are_refused_when_the_graph_is_built(ours, graph):
    acc = ours.dense(tf.float32, [1])
    with pytest.raises(ValueError, match="must be rank 0"):
        acc.apply_contribution([1.0], [2])


def test_default_local_step_is_zero(ours):
    acc = eager_of(ours)
    assert int(acc.apply_contribution([1.0], 0)) == ADDED
    acc.take_grad(1)
    assert int(acc.apply_contribution([1.0], 0)) == STALE


def test_types_and_static_shapes_in_a_graph(ours, graph):
    acc = ours.dense(tf.float32, [1])
    outcome = acc.apply_contribution([1.0], v1.placeholder(tf.int64, None))
    assert (outcome.dtype, outcome.shape.as_list()) == (tf.int32, [])
    assert outcome.op.op_def.is_stateful
