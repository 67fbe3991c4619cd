"""Test of a legacy program that runs once it is rewritten."""

from __future__ import annotations

import pytest

from tf_condacc.migrate._program import migrate_text

# The calls of tf_upgrade_v2's output, with the names that it leaves as they are.
PROGRAM = """
from __future__ import print_function
import tensorflow as tf
from tensorflow.contrib import estimator
from tensorflow.contrib.opt import DropStaleGradientOptimizer as DropStale
from tensorflow.python.ops import data_flow_ops

v1 = tf.compat.v1


def sgd(rate=0.5):
    return v1.train.GradientDescentOptimizer(rate)


def accumulate():
    weights = v1.get_variable("weights", initializer=[4.0, 8.0], use_resource=True)
    gradient = v1.gradients(tf.reduce_sum(weights**2) / 2, weights)[0]
    dense = tf.compat.v1.ConditionalAccumulator(tf.float32, shape=[2])
    rows = data_flow_ops.SparseConditionalAccumulator(tf.float32, shape=[9, 1])
    push = [dense.apply_grad(gradient), rows.apply_grad([3], [[6.0]])]
    train = sgd().apply_gradients([(dense.take_grad(2), weights)])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(push)
        session.run(push)
        session.run(train)
        return session.run(weights).tolist(), session.run(rows.take_grad(2)).values.tolist()


def synchronous():
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("weights", initializer=[4.0], use_resource=True)
    with v1.device(v1.train.replica_device_setter(ps_tasks=0)):
        optimizer = v1.train.SyncReplicasOptimizer(sgd(), replicas_to_aggregate=1)
        train = optimizer.minimize(tf.reduce_sum(weights**2) / 2, global_step=step)
    hook = optimizer.make_session_run_hook(is_chief=True)
    with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.run(train)
        return session.run(weights).tolist()


def drop_stale():
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("weights", initializer=[4.0], use_resource=True)
    train = DropStale(sgd(), staleness=1).minimize(tf.reduce_sum(weights**2) / 2, step)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train)
        return session.run(weights).tolist()


def towers():
    def model_fn(features, labels, mode):
        weights = v1.get_variable("weights", initializer=[4.0], use_resource=True)
        loss = tf.reduce_sum(weights * features)
        optimizer = estimator.TowerOptimizer(sgd())
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return Spec("train", None, loss, train)

    replicated = tf.contrib.estimator.replicate_model_fn(
        model_fn, loss_reduction=v1.losses.Reduction.SUM, devices=["/CPU:0", "/CPU:0"]
    )
    spec = replicated(tf.constant([[1.0], [2.0]]), tf.constant([0.0, 0.0]), "train")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        return session.run(v1.trainable_variables()[0]).tolist()


results = []
for run in (accumulate, drop_stale, synchronous, towers):
    with tf.Graph().as_default():
        results.append(run())
"""


def test_a_rewritten_program_trains():
    from tf_condacc.estimator import EstimatorSpec

    with pytest.raises(ImportError):
        exec(PROGRAM, {})
    outcome = migrate_text(PROGRAM)
    assert outcome.findings == ()
    assert "contrib" not in outcome.text
    space = {"Spec": EstimatorSpec}
    exec(compile(outcome.text, "<program>", "exec"), space)
    assert space["results"] == [([2.0, 4.0], [[6.0]]), [2.0], [2.0], [2.5]]
