"""Tests of TowerOptimizer: state, forwarded calls, several optimizers, and wrapped optimizers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.many_threads import join_queue_runners
from tests.support.signatures import bare_signature
from tests.support.tower_support import (
    Recording,
    initialized_session,
    replicate,
    trained,
    two_zeros,
    weighted_sum,
)
from tf_condacc import DropStaleGradientOptimizer, estimator

v1 = tf.compat.v1
TowerOptimizer = tf_condacc.TowerOptimizer
COLLECTION = "replicate_model_fn_graph_states"
AVERAGED = {"loss_reduction": v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS}


def test_it_has_the_names_and_signatures_of_the_original():
    assert issubclass(TowerOptimizer, v1.train.Optimizer)
    assert TowerOptimizer.COLLECTION_FOR_GRAPH_STATES == COLLECTION
    gates = TowerOptimizer.GATE_NONE, TowerOptimizer.GATE_OP, TowerOptimizer.GATE_GRAPH
    assert gates == (0, 1, 2)
    signatures = {
        "__init__": "(self, optimizer_or_optimizer_fn)",
        "compute_gradients": "(self, loss, *args, **kwargs)",
        "apply_gradients": "(self, grads_and_vars, global_step=None, **kwargs)",
        "get_slot": "(self, *args, **kwargs)",
    }
    for name, signature in signatures.items():
        assert bare_signature(getattr(TowerOptimizer, name)) == signature


def test_its_option_is_given_by_name():
    with pytest.raises(TypeError, match="positional"):
        TowerOptimizer(v1.train.AdamOptimizer()).configure(True)


def test_without_towers_every_call_is_forwarded_unchanged():
    with tf.Graph().as_default() as graph:
        inner = v1.train.MomentumOptimizer(0.1, 0.9, name="Inner")
        optimizer = TowerOptimizer(inner)
        loss = weighted_sum()
        (gradient, variable), *_ = optimizer.compute_gradients(loss)
        step = v1.train.create_global_step()
        train = optimizer.apply_gradients([(gradient, variable)], global_step=step, name="mine")

        assert train.name.startswith("mine")
        assert optimizer.get_name() == "Inner"
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(variable, "momentum") is inner.get_slot(variable, "momentum")
        assert optimizer.variables() == inner.variables() != []
        assert not [op for op in graph.get_operations() if "averaged_loss" in op.name]
        with initialized_session() as session:
            session.run(train)
            np.testing.assert_allclose(session.run(variable), [-0.1, -0.2], rtol=1e-6)
            assert session.run(step) == 1


def test_has_been_used_is_kept_for_each_graph():
    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        assert not TowerOptimizer.has_been_used()
        optimizer = TowerOptimizer(v1.train.AdamOptimizer())
        assert not TowerOptimizer.has_been_used()
        optimizer.get_name()
        assert TowerOptimizer.has_been_used()
    with second.as_default():
        assert not TowerOptimizer.has_been_used()
    assert len(first.get_collection(COLLECTION)) == len(second.get_collection(COLLECTION)) == 1


def test_an_optimizer_fn_is_called_once_when_it_is_first_needed():
    made: list[v1.train.Optimizer] = []

    def make():
        made.append(v1.train.GradientDescentOptimizer(1.0))
        return made[-1]

    with tf.Graph().as_default():
        optimizer = TowerOptimizer(make)
        assert made == []
        optimizer.minimize(weighted_sum())
        optimizer.get_name()
    assert len(made) == 1


@pytest.mark.parametrize("wrong", [None, "sgd"])
def test_what_is_no_optimizer_is_an_attribute_error_on_first_use(wrong):
    with tf.Graph().as_default():
        optimizer = TowerOptimizer(wrong)
        with pytest.raises(AttributeError):
            optimizer.minimize(weighted_sum())


def test_it_works_eagerly_without_towers():
    variable = tf.Variable([1.0, 1.0])
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.5))
    optimizer.minimize(lambda: tf.reduce_sum(variable * [1.0, 2.0]), var_list=[variable])
    assert variable.numpy().tolist() == [0.5, 0.0]


def test_a_checkpoint_of_it_is_that_of_the_wrapped_optimizer(tmp_path):
    def build(wrap):
        variable = tf.Variable([1.0, 1.0])
        inner = v1.train.AdamOptimizer(0.1)
        optimizer = TowerOptimizer(inner) if wrap else inner
        optimizer.minimize(lambda: tf.reduce_sum(variable**2), var_list=[variable])
        return variable, inner, tf.train.Checkpoint(variable=variable, optimizer=optimizer)

    variable, inner, checkpoint = build(wrap=True)
    path = checkpoint.save(str(tmp_path / "tower"))
    for wrap in (True, False):
        other, other_inner, other_checkpoint = build(wrap)
        other.assign([5.0, 5.0])
        for slot in ("m", "v"):
            other_inner.get_slot(other, slot).assign([7.0, 7.0])
        other_checkpoint.restore(path).assert_consumed()
        for slot in ("m", "v"):
            expected = inner.get_slot(variable, slot).numpy()
            np.testing.assert_array_equal(other_inner.get_slot(other, slot).numpy(), expected)
        assert other.numpy().tolist() == variable.numpy().tolist()


def test_gradients_that_some_towers_leave_out_are_those_of_the_others():
    leave_out = iter(["a", "b", ""])

    def model_fn(features, labels, mode):
        loss = weighted_sum("a") + weighted_sum("b")
        optimizer = TowerOptimizer(Recording())
        out = next(leave_out)
        pairs = [
            (None if v.op.name == out and v.op.name == "a" else g, v)
            for g, v in optimizer.compute_gradients(loss)
            if not (v.op.name == out == "b")
        ]
        return estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.apply_gradients(pairs))

    for value in trained(model_fn, 3, features=None):
        assert value.tolist() == [-2.0, -4.0]


def test_no_gradient_at_all_is_an_error():
    def model_fn(features, labels, mode):
        optimizer, variable = TowerOptimizer(Recording()), two_zeros()
        train = optimizer.apply_gradients([(None, variable)])
        return estimator.EstimatorSpec(mode, loss=tf.constant(1.0), train_op=train)

    with tf.Graph().as_default(), pytest.raises(ValueError, match="No gradients provided"):
        replicate(model_fn, 2, features=None)


def test_slots_belong_to_the_optimizer_of_the_last_tower():
    inner: list[v1.train.Optimizer] = []

    def model_fn(features, labels, mode):
        inner.append(v1.train.MomentumOptimizer(0.1, 0.9))
        loss = weighted_sum()
        train = TowerOptimizer(inner[-1]).minimize(loss)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    with tf.Graph().as_default():
        replicate(model_fn, 2, features=None)
        (variable,) = v1.trainable_variables()
        assert inner[0].get_slot(variable, "momentum") is None
        assert inner[0].get_slot_names() == []
        assert inner[1].get_slot(variable, "momentum").name == "w/Momentum:0"


@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("outer", ["tower", "drop stale"])
def test_it_wraps_and_is_wrapped_by_an_optimizer_that_drops(outer: str, num_towers: int):
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.reduce_sum(two_zeros() * features, axis=1))
        step = v1.train.get_or_create_global_step()
        if outer == "tower":
            optimizer = TowerOptimizer(DropStaleGradientOptimizer(Recording(), staleness=0))
        else:
            optimizer = DropStaleGradientOptimizer(TowerOptimizer(Recording()), staleness=0)
        train = optimizer.minimize(loss, global_step=step)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    with tf.Graph().as_default():
        spec = replicate(model_fn, num_towers, tf.constant([[1.0, 2.0], [3.0, 4.0]]), **AVERAGED)
        with initialized_session() as session:
            assert session.run(spec.train_op) == 0.0
            value = session.run(v1.trainable_variables()[0])
            assert session.run(v1.train.get_global_step()) == 1
    assert value.tolist() == [-2.0, -3.0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_wraps_optimizers_that_synchronize_replicas():
    inner = v1.train.SyncReplicasOptimizer(
        v1.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=1
    )

    def model_fn(features, labels, mode):
        loss = tf.reduce_sum(two_zeros() * features)
        step = v1.train.get_or_create_global_step()
        train = TowerOptimizer(inner).minimize(loss, global_step=step)
        return estimator.EstimatorSpec(
            mode, loss=loss, train_op=train, training_hooks=[inner.make_session_run_hook(True)]
        )

    with tf.Graph().as_default():
        spec = replicate(model_fn, 2, tf.constant([[1.0, 2.0], [3.0, 4.0]]), **AVERAGED)
        (variable,) = v1.trainable_variables()
        config = v1.ConfigProto(device_count={"CPU": 2})
        # The chief's thread still waits for gradients at the end, so the session must not wait for
        # it for long.
        with v1.train.MonitoredTrainingSession(
            hooks=spec.training_hooks, config=config, stop_grace_period_secs=1
        ) as session:
            value = np.zeros(2)
            while value[0] > -3.0:
                session.run(spec.train_op)
                # The value is a multiple of the towers' mean gradient, [2, 3], with one for each
                # applied update.
                value = session.run(variable)
                np.testing.assert_array_equal(value, np.round(value[0]) * np.array([1, 1.5]))
    join_queue_runners()
