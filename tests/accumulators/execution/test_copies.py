"""Tests of copies of accumulators: gradients are never shared."""

from __future__ import annotations

import copy
import pickle

import pytest
import tensorflow as tf

import tf_condacc

COPIES = [copy.copy, copy.deepcopy]


def dense(**arguments):
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [1], **arguments)
    accumulator.apply_grad([2.0])
    return accumulator


def sparse(**arguments):
    accumulator = tf_condacc.SparseConditionalAccumulator(tf.float32, [3, 1], **arguments)
    accumulator.apply_grad([0], [[2.0]])
    return accumulator


@pytest.mark.parametrize("make_copy", COPIES)
@pytest.mark.parametrize("make", [dense, sparse])
def test_a_copy_of_an_eager_accumulator_is_an_empty_one_of_its_own(make, make_copy):
    original = make(reduction_type="SUM")
    original.take_grad(1)
    original.apply_grad(*([[3.0]] if make is dense else [[1], [[3.0]]]), local_step=1)
    copied = make_copy(original)
    assert type(copied) is type(original)
    assert [int(copied.num_accumulated()), int(copied.global_step())] == [0, 1]
    for _ in range(2):
        copied.apply_grad(*([[5.0]] if make is dense else [[1], [[5.0]]]), local_step=1)
    values = [each.take_grad(1) for each in (original, copied)]
    values = values if make is dense else [each.values for each in values]
    assert [float(tf.reshape(each, [])) for each in values] == [3.0, 10.0]


def test_an_object_that_contains_an_accumulator_can_be_copied():
    module = tf.Module()
    module.accumulator = dense()
    copied = copy.deepcopy(module)
    assert int(copied.accumulator.num_accumulated()) == 0
    assert int(module.accumulator.num_accumulated()) == 1


@pytest.mark.parametrize("make_copy", COPIES)
def test_a_copy_that_would_share_its_gradients_is_refused(make_copy):
    with pytest.raises(TypeError, match="'conditional_accumulator' cannot be copied.*'of_copies'"):
        make_copy(dense(shared_name="of_copies"))
    with tf.Graph().as_default():
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [1], name="in_graph")
        with pytest.raises(TypeError, match="'in_graph' cannot be copied.* in a graph"):
            make_copy(accumulator)
    eager = dense()
    with tf.Graph().as_default(), pytest.raises(TypeError, match="in a graph"):
        make_copy(eager)


@pytest.mark.parametrize("make", [dense, sparse])
def test_an_accumulator_refuses_to_be_pickled(make):
    with pytest.raises(TypeError, match="cannot be pickled or passed to another process"):
        pickle.dumps(make())
