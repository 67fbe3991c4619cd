"""Tests of replicate_model_fn in training: names, devices, errors, and the graph afterwards."""

from __future__ import annotations

import collections
import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.signatures import bare_signature
from tests.support.tower_support import ModeKeys, X, initialized_session, linear_model_fn, replicate
from tf_condacc import estimator

v1 = tf.compat.v1
Reduction = v1.losses.Reduction


def test_it_has_the_name_and_signature_of_the_original():
    parameters = inspect.signature(tf_condacc.replicate_model_fn).parameters
    positional = [p for p in parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [
        ("model_fn", inspect.Parameter.empty),
        ("loss_reduction", Reduction.SUM_BY_NONZERO_WEIGHTS),
        ("devices", None),
    ]
    replicated = tf_condacc.replicate_model_fn(linear_model_fn)
    assert bare_signature(replicated) == "(features, labels, mode, params=None, config=None)"


@pytest.mark.parametrize(
    ("reduction", "scales", "num_towers"),
    [
        (Reduction.SUM, False, 4),
        (Reduction.SUM_BY_NONZERO_WEIGHTS, True, 2),
        (Reduction.MEAN, True, 1),
        (None, True, 2),
        ("anything", True, 2),
    ],
)
def test_losses_and_gradients_are_summed_or_averaged(reduction, scales: bool, num_towers: int):
    def model_fn(features, labels, mode):
        spec = linear_model_fn(features, labels, mode)
        return spec._replace(loss=spec.loss + 1.0)

    with tf.Graph().as_default():
        spec = replicate(model_fn, num_towers, tf.constant(X), loss_reduction=reduction)
        with initialized_session() as session:
            loss, _ = session.run([spec.loss, spec.train_op])
            value, step = session.run([*v1.trainable_variables(), v1.train.get_global_step()])
    factor = 1.0 if scales else num_towers
    assert loss == factor and step == 1
    np.testing.assert_allclose(value, -factor * X.mean(axis=0), rtol=1e-6)


def test_names_and_places_are_those_of_the_original():
    with tf.Graph().as_default() as graph:
        spec = replicate(linear_model_fn, 3, tf.ones([6, 3]), loss_reduction=Reduction.MEAN)
        names = {op.name for op in graph.get_operations()}
        ops = {name: graph.get_operation_by_name(name) for name in names}

    assert {"w", "Mean", "averaged_loss", "averaged_loss_1", "train_op_placeholder"} <= names
    for tower in ("tower_1", "tower_2"):
        assert {f"{tower}/Mean", f"{tower}/averaged_loss", f"{tower}/averaged_loss_1"} <= names
    assert "tower_1/train_op_placeholder" in names
    assert "tower_2/train_op_placeholder" not in names
    assert not [name for name in names if name.startswith("tower_0")]
    assert spec.loss.op.name == "loss" and spec.loss.op.device == "/device:CPU:0"
    assert spec.train_op.name == "Recording"
    assert spec.predictions.op.name == "tower_2/Sum"
    for tower, place in (("", 0), ("tower_1/", 1), ("tower_2/", 2)):
        assert ops[f"{tower}Mean"].device == f"/device:CPU:{place}"
    variables = [op for op in ops.values() if op.type == "VarHandleOp"]
    assert {op.name for op in variables} == {"w", "global_step"}
    summed = [op for name, op in ops.items() if name.startswith("gradient_aggregating/")]
    split = [op for name, op in ops.items() if name.startswith("split_inputs/")]
    assert summed and split
    assert {op.device for op in [*variables, *summed, *split]} == {"/device:CPU:0"}
    gradients = ops["train_op_placeholder"].control_inputs
    assert gradients and all(op.name.startswith("gradients/") for op in gradients)


def test_a_device_that_the_user_chooses_wins():
    def model_fn(features, labels, mode):
        with v1.device("/CPU:5"):
            v1.get_variable("placed", initializer=[0.0])
            tf.identity(features, name="here")
        return linear_model_fn(features, labels, mode)

    with tf.Graph().as_default() as graph:
        replicate(model_fn, 2, tf.constant(X))
        for name in ("placed", "here", "tower_1/here"):
            assert graph.get_operation_by_name(name).device == "/device:CPU:5"


@pytest.mark.parametrize("devices", [["/CPU:3"], ["/device:GPU:0"]])
def test_with_one_device_there_is_no_split_and_plain_optimizers_are_allowed(devices: list[str]):
    def model_fn(features, labels, mode):
        w = v1.get_variable("w", initializer=[0.0])
        train = v1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(w))
        spec = estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train)
        specs.append(spec)
        return spec

    specs: list[estimator.EstimatorSpec] = []
    with tf.Graph().as_default() as graph:
        features = tf.zeros([5, 1])
        replicated = tf_condacc.replicate_model_fn(model_fn, Reduction.SUM, devices=devices)
        assert replicated(features, None, ModeKeys.TRAIN) is specs[0]
        assert not [op for op in graph.get_operations() if "split" in op.name]
        # Variables are on the device if it is a GPU, and on the first CPU otherwise.
        is_gpu = "GPU" in devices[0]
        place = tf.DeviceSpec.from_string(devices[0]).to_string()
        expected = place if is_gpu else "/device:CPU:0"
        assert graph.get_operation_by_name("w").device == expected
        assert specs[0].loss.op.device == place


@pytest.mark.parametrize("devices", [None, []])
def test_by_default_devices_are_those_of_the_process(devices):
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    with tf.Graph().as_default() as graph:
        replicated = tf_condacc.replicate_model_fn(linear_model_fn, devices=devices)
        replicated(tf.constant(X), None, ModeKeys.TRAIN)
        towers = len(tf.config.list_logical_devices(kind))
        assert graph.get_operation_by_name("Mean").device == f"/device:{kind}:0"
        assert any(op.name.startswith("tower_") for op in graph.get_operations()) == (towers > 1)


def test_an_outer_scope_stands_once_before_all_names():
    with tf.Graph().as_default() as graph:
        with v1.variable_scope("outer"):
            replicate(linear_model_fn, 2, tf.constant(X), loss_reduction=Reduction.MEAN)
        names = [op.name for op in graph.get_operations()]
        assert [v.op.name for v in v1.trainable_variables()] == ["outer/w"]
    for name in ("outer/averaged_loss", "outer/tower_1/averaged_loss", "outer/loss"):
        assert name in names
    assert not [name for name in names if "//" in name]


def test_default_names_of_scopes_are_the_same_in_every_tower():
    def model_fn(features, labels, mode):
        for _ in range(2):
            with v1.variable_scope(None, default_name="dense"):
                v1.get_variable("kernel", initializer=[1.0])
        return linear_model_fn(features, labels, mode)

    with tf.Graph().as_default():
        replicate(model_fn, 3, tf.ones([3, 3]))
        names = [v.op.name for v in v1.trainable_variables()]
    assert names == ["dense/kernel", "dense_1/kernel", "w"]


def test_all_but_loss_and_train_op_come_from_the_last_tower():
    hooks = [v1.train.SessionRunHook() for _ in range(3)]
    scaffolds = [v1.train.Scaffold() for _ in range(3)]
    number = iter(range(3))

    def model_fn(features, labels, mode):
        k = next(number)
        spec = linear_model_fn(features, labels, mode)
        return spec._replace(training_hooks=[hooks[k]], scaffold=scaffolds[k])

    with tf.Graph().as_default():
        spec = replicate(model_fn, 3, tf.ones([3, 3]))
    assert spec.training_hooks == (hooks[2],) and spec.scaffold is scaffolds[2]


def test_a_spec_keeps_its_own_type():
    fields = estimator.EstimatorSpec._fields

    class Tuple(collections.namedtuple("Tuple", fields)):
        pass

    class Plain:
        def __init__(self, **values):
            self.__dict__.update(values)

    for kind in (Tuple, Plain):

        def model_fn(features, labels, mode, kind=kind):
            return kind(**linear_model_fn(features, labels, mode)._asdict())

        with tf.Graph().as_default():
            spec = replicate(model_fn, 2, tf.constant(X))
            assert type(spec) is kind and spec.loss.op.name == "loss"
