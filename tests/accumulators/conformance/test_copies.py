"""Tests of copies and pickles: gradients are never shared."""

from __future__ import annotations

import copy
import pickle

import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.conformance.objects import every_object


@every_object
def test_a_copy_is_an_empty_one_of_its_own(make, apply, take):
    acc, module = make(name="mine")
    for value in (2.0, 4.0):
        apply(acc, value)
    take(acc)  # Raises the step.
    apply(acc, 3.0)
    copies = [copy.deepcopy(module).accumulator]
    if not isinstance(acc, tf_condacc.GradientAccumulator):  # It needs copies of its variables.
        copies += [copy.copy(acc), copy.deepcopy(acc)]
    for copied in copies:
        assert type(copied) is type(acc)
        assert int(copied.num_accumulated()) == 0
        for value in (5.0, 7.0):
            apply(copied, value)
        assert float(tf.squeeze(take(copied))) == 6.0
    assert int(acc.num_accumulated()) == 1
    apply(acc, 5.0)
    assert float(tf.squeeze(take(acc))) == 4.0


def test_a_copy_has_the_step_of_its_original():
    acc = tf_condacc.ConditionalAccumulator(tf.float32, [1])
    acc.set_global_step(7)
    assert [int(each(acc).global_step()) for each in (copy.copy, copy.deepcopy)] == [7, 7]


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy])
def test_a_copy_that_would_share_its_gradients_is_refused(make_copy):
    def dense(**arguments):
        return tf_condacc.ConditionalAccumulator(tf.float32, [1], **arguments)

    with pytest.raises(TypeError, match="'conditional_accumulator' cannot be copied.*'of_copies'"):
        make_copy(dense(shared_name="of_copies"))
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match="'in_graph' cannot be copied.* in a graph"):
            make_copy(dense(name="in_graph"))
    eager = dense()
    with tf.Graph().as_default(), pytest.raises(TypeError, match="in a graph"):
        make_copy(eager)


@every_object
def test_pickling_is_refused(make, apply, take):
    with pytest.raises(TypeError, match="'mine' cannot be pickled.*[Mm]ake another"):
        pickle.dumps(make(name="mine")[0])
