"""Tests of several optimizers in one model, whose calls are compared between the towers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import Recording, replicate, trained, weighted_sum
from tf_condacc import estimator

v1 = tf.compat.v1
TowerOptimizer = tf_condacc.TowerOptimizer
CALLS = "Each invocation of model_fn was supposed to make the same optimizer calls."


def _towers(calls_of_towers: list[str]) -> Any:
    """Returns a model whose towers make an optimizer call for each letter, the variable's name."""
    letters = iter(calls_of_towers)

    def model_fn(features, labels, mode):
        losses = {name: weighted_sum(name) for name in "ab"}
        trains = [
            TowerOptimizer(Recording(0.5)).minimize(
                losses[name], var_list=[v for v in v1.trainable_variables() if v.op.name == name]
            )
            for name in next(letters)
        ]
        train = tf.group(*trains)
        return estimator.EstimatorSpec(mode, loss=losses["a"], train_op=train)

    return model_fn


def test_several_optimizers_in_one_model_are_paired_by_their_place():
    values = trained(_towers(["ab", "ab", "ab"]), 3, features=None)
    # Each of three towers has the gradient [1, 2], and the learning rate is 0.5.
    assert [value.tolist() for value in values] == [[-1.5, -3.0]] * 2


@pytest.mark.parametrize(
    ("calls", "which"),
    [
        (["ab", ""], "Tower 0 has a call 0, about a:0, and tower 1 has none: it made 0."),
        (["aba", "a"], "Tower 0 has a call 1, about b:0, and tower 1 has none: it made 1."),
        (["a", "aba"], "Tower 1 has a call 1, about b:0, and tower 0 has none: it made 1."),
        (["aa", "a", ""], "Tower 0 has a call 1, about a:0, and tower 1 has none: it made 1."),
        (["ab", "ba"], "Call 0 of tower 1 is about b:0 there and about a:0 in tower 0."),
        (["ab", "aba"], "Tower 1 has a call 2, about a:0, and tower 0 has none: it made 2."),
        (["a", "ab", "a"], "Tower 1 has a call 1, about b:0, and tower 0 has none: it made 1."),
        (["ab", "aa", "ab"], "Call 1 of tower 1 is about a:0 there and about b:0 in tower 0."),
    ],
)
def test_towers_that_differ_in_their_calls_are_refused_by_name(calls: list[str], which: str):
    with tf.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=re.escape(CALLS) + ".*" + re.escape(which)):
            replicate(_towers(calls), len(calls), features=None)
        assert graph.get_collection(TowerOptimizer.COLLECTION_FOR_GRAPH_STATES) == []


def test_towers_that_use_other_optimizers_are_refused_by_name():
    kinds = iter([v1.train.AdamOptimizer, v1.train.GradientDescentOptimizer])

    def model_fn(features, labels, mode):
        loss = weighted_sum()
        train = TowerOptimizer(next(kinds)(0.1)).minimize(loss)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    match = "Call 0 of tower 1 is GradientDescentOptimizer there and AdamOptimizer in tower 0"
    with tf.Graph().as_default(), pytest.raises(ValueError, match=match):
        replicate(model_fn, 2, features=None)


def test_optimizers_in_another_order_are_refused_by_name():
    optimizers = [TowerOptimizer(Recording()), TowerOptimizer(Recording())]

    def model_fn(features, labels, mode):
        loss = weighted_sum()
        train = tf.group(*[optimizer.minimize(loss) for optimizer in optimizers])
        optimizers.reverse()
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="Call 0 of tower 1 is of another"),
    ):
        replicate(model_fn, 2, features=None)
