"""Test of a program for TensorFlow 1 that runs after tf_upgrade_v2 and the rewriting."""

from __future__ import annotations

import io

import pytest

from condacc.migrate._program import migrate_text

PROGRAM = """
from __future__ import print_function
import tensorflow as tf
from tensorflow.contrib import estimator
from tensorflow.contrib.opt import DropStaleGradientOptimizer as DropStale
from tensorflow.python.ops import data_flow_ops


def sgd(rate=0.5):
    return tf.train.GradientDescentOptimizer(rate)


def accumulate():
    weights = tf.get_variable("weights", initializer=[4.0, 8.0], use_resource=True)
    gradient = tf.gradients(tf.reduce_sum(weights**2) / 2, weights)[0]
    dense = tf.ConditionalAccumulator(tf.float32, shape=[2])
    rows = data_flow_ops.SparseConditionalAccumulator(tf.float32, shape=[9, 1])
    push = [dense.apply_grad(gradient), rows.apply_grad([3], [[6.0]])]
    train = sgd().apply_gradients([(dense.take_grad(2), weights)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(push)
        session.run(push)
        session.run(train)
        return session.run(weights).tolist(), session.run(rows.take_grad(2)).values.tolist()


def synchronous():
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("weights", initializer=[4.0], use_resource=True)
    with tf.device(tf.train.replica_device_setter(ps_tasks=0)):
        optimizer = tf.train.SyncReplicasOptimizer(sgd(), replicas_to_aggregate=1)
        train = optimizer.minimize(tf.reduce_sum(weights**2) / 2, global_step=step)
    hook = optimizer.make_session_run_hook(is_chief=True)
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.run(train)
        return session.run(weights).tolist()


def drop_stale():
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("weights", initializer=[4.0], use_resource=True)
    train = DropStale(sgd(), staleness=1).minimize(tf.reduce_sum(weights**2) / 2, step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        return session.run(weights).tolist()


def towers():
    def model_fn(features, labels, mode):
        weights = tf.get_variable("weights", initializer=[4.0], use_resource=True)
        loss = tf.reduce_sum(weights * features)
        optimizer = estimator.TowerOptimizer(sgd())
        train = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return Spec("train", None, loss, train)

    replicated = tf.contrib.estimator.replicate_model_fn(
        model_fn, loss_reduction=tf.losses.Reduction.SUM, devices=["/CPU:0", "/CPU:0"]
    )
    spec = replicated(tf.constant([[1.0], [2.0]]), tf.constant([0.0, 0.0]), "train")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(spec.train_op)
        return session.run(tf.trainable_variables()[0]).tolist()


results = []
for run in (accumulate, drop_stale, synchronous, towers):
    with tf.Graph().as_default():
        results.append(run())
"""


def upgrade(program: str) -> str:
    """Returns a program as tf_upgrade_v2 rewrites it."""
    from tensorflow.tools.compatibility import ast_edits, tf_upgrade_v2

    upgrader = ast_edits.ASTCodeUpgrader(tf_upgrade_v2.TFAPIChangeSpec())
    output = io.StringIO()
    upgrader.process_opened_file("old.py", io.StringIO(program), "new.py", output)
    return output.getvalue()


def test_a_rewritten_program_trains():
    from tf_condacc.estimator import EstimatorSpec

    upgraded = upgrade(PROGRAM)
    assert "tf.compat.v1.ConditionalAccumulator" in upgraded
    with pytest.raises(ImportError):
        exec(upgraded, {})
    outcome = migrate_text(upgraded)
    assert outcome.findings == ()
    assert "contrib" not in outcome.text
    space = {"Spec": EstimatorSpec}
    exec(compile(outcome.text, "<program>", "exec"), space)
    assert space["results"] == [([2.0, 4.0], [[6.0]]), [2.0], [2.0], [2.5]]


SETTER_PROGRAM = """
import tensorflow as tf

with tf.Graph().as_default() as graph:
    with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
        weights = tf.get_variable("weights", initializer=[4.0])
    device = graph.get_operation_by_name("weights").device
"""


def test_a_rewritten_program_places_variables_by_a_device_setter():
    upgraded = upgrade(SETTER_PROGRAM)
    with pytest.raises(RuntimeError, match="does not support functions"):
        exec(upgraded, {})
    space = {}
    exec(migrate_text(upgraded).text, space)
    assert space["device"] == "/job:ps/task:0"
