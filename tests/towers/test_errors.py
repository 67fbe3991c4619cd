"""Tests of models that replicate_model_fn refuses, and of the graph afterwards."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import (
    ModeKeys,
    Recording,
    X,
    initialized_session,
    linear_model_fn,
    replicate,
)
from tf_condacc import estimator

v1 = tf.compat.v1
TowerOptimizer = tf_condacc.TowerOptimizer
COLLECTION = TowerOptimizer.COLLECTION_FOR_GRAPH_STATES
Reduction = v1.losses.Reduction


def test_no_reduction_is_refused():
    text = "Tower losses need to be reduced in some way, yet none reduction is specified."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        tf_condacc.replicate_model_fn(linear_model_fn, Reduction.NONE)


@pytest.mark.parametrize("first", ["plain", "skips"])
def test_optimizers_that_are_not_wrapped_are_refused(first: str):
    def model_fn(features, labels, mode):
        w = v1.get_variable("w", initializer=[0.0])
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        train = tf.no_op() if first == "skips" else optimizer.minimize(tf.reduce_sum(w))
        return estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train)

    text = (
        "Please wrap optimizers with TowerOptimizer in order to use replicate_model_fn with "
        "multiple `devices`."
    )
    with tf.Graph().as_default(), pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        replicate(model_fn, 2, tf.constant(X))


@pytest.mark.parametrize("mode", ["test", None, "TRAIN"])
def test_an_unknown_mode_is_refused(mode):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=f"mode .* got {mode!r}"):
        replicate(linear_model_fn, 2, tf.constant(X), mode=mode)


def test_a_model_fn_without_labels_is_refused():
    def model_fn(features, mode):
        raise AssertionError

    with tf.Graph().as_default(), pytest.raises(TypeError, match="labels"):
        replicate(model_fn, 2, tf.constant(X))


def test_a_model_fn_that_returns_no_spec_is_refused_by_its_tower():
    towers = iter([True, False])

    def model_fn(features, labels, mode):
        return linear_model_fn(features, labels, mode) if next(towers) else None

    match = "model_fn of tower 1 should return an EstimatorSpec, got None"
    with tf.Graph().as_default(), pytest.raises(ValueError, match=match):
        replicate(model_fn, 2, tf.constant(X))


@dataclasses.dataclass
class OtherSpec:
    """A spec of a type that checks nothing."""

    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    export_outputs: Any = None


@pytest.mark.parametrize(
    ("mode", "missing", "num_towers"),
    [
        (ModeKeys.TRAIN, "train_op", 1),
        (ModeKeys.TRAIN, "loss", 2),
        (ModeKeys.EVAL, "loss", 3),
        (ModeKeys.PREDICT, "predictions", 2),
    ],
)
def test_a_spec_that_lacks_what_the_mode_requires_is_refused_by_its_tower(
    mode, missing: str, num_towers: int
):
    number = iter(range(num_towers))

    def model_fn(features, labels, mode):
        spec = linear_model_fn(features, labels, mode)
        other = OtherSpec(spec.predictions, spec.loss, spec.train_op)
        is_last = next(number) == num_towers - 1
        return dataclasses.replace(other, **{missing: None}) if is_last else other

    tower = f" of tower {num_towers - 1}" if num_towers > 1 else ""
    match = f"^Missing {missing}. In mode '{mode}', model_fn{tower} must return"
    with tf.Graph().as_default(), pytest.raises(ValueError, match=match):
        replicate(model_fn, num_towers, tf.ones([6, 3]), mode=mode)


def test_a_second_replication_finds_its_variables_there_already():
    with tf.Graph().as_default():
        replicate(linear_model_fn, 2, tf.constant(X))
        with pytest.raises(ValueError, match="already exists"):
            replicate(linear_model_fn, 2, tf.constant(X))
        with v1.variable_scope("", reuse=v1.AUTO_REUSE):
            replicate(linear_model_fn, 2, tf.constant(X))


def test_a_bad_device_is_refused():
    replicated = tf_condacc.replicate_model_fn(linear_model_fn, devices=["/CPU:0", "/nonsense"])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Unknown attribute"):
        replicated(tf.constant(X), None, ModeKeys.TRAIN)


def test_eagerly_there_are_no_towers():
    for num_towers in (1, 2):
        with pytest.raises(RuntimeError, match="does not support functions when eager"):
            replicate(linear_model_fn, num_towers, tf.constant(X))


@pytest.mark.parametrize("tower", [0, 1])
def test_an_exception_leaves_the_graph_usable(tower: int):
    number = iter(range(2))

    def model_fn(features, labels, mode):
        spec = linear_model_fn(features, labels, mode)
        if next(number) == tower:
            raise KeyError("mine")
        return spec

    with tf.Graph().as_default() as graph:
        with pytest.raises(KeyError, match="mine"):
            replicate(model_fn, 2, tf.constant(X))
        assert graph.get_collection(COLLECTION) == []
        assert not TowerOptimizer.has_been_used()
        w = v1.get_variable("other", initializer=[1.0])
        train = TowerOptimizer(Recording).minimize(tf.reduce_sum(w))
        with initialized_session() as session:
            session.run(train)
            assert session.run(w).tolist() == [0.0]
