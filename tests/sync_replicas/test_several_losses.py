"""Tests of several calls of `apply_gradients`, and of variables that occur several times."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.control_flow import control_flow
from tests.support.sync_replicas_program import monitored
from tests.support.waiting import in_threads

v1 = tf.compat.v1
_KINDS = ("dense", "sparse", "mixed")


def look(table: tf.Variable, kind: str, number: int) -> tf.Tensor:
    """Returns rows of a variable. The gradient is dense or sparse, depending on the kind."""
    is_sparse = kind == "sparse" or (kind == "mixed" and number == 0)
    return tf.gather(table, [0, 2, 0]) if is_sparse else tf.stack([table[0], table[2], table[0]])


def joined_lists(optimizer, kind: str, table: tf.Variable, other: tf.Variable):
    """Returns the lists of two losses, one of which has no gradient for `other`."""
    first = optimizer.compute_gradients(
        tf.reduce_sum(look(table, kind, 0) ** 2) + other, [table, other]
    )
    second = optimizer.compute_gradients(tf.reduce_sum(look(table, kind, 1) * 3.0), [table, other])
    assert second[1][0] is None
    return first + second


def after_a_step(wrap, kind: str) -> tuple[np.ndarray, np.float32]:
    """Returns the variables after a step with the joined lists of two losses."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        table = v1.get_variable("table", initializer=np.float32([[1], [2], [4]]))
        other = v1.get_variable("other", initializer=np.float32(1))
        optimizer = wrap(v1.train.GradientDescentOptimizer(0.25))
        train = optimizer.apply_gradients(joined_lists(optimizer, kind, table, other), step)
        is_sync = isinstance(optimizer, tf_condacc.SyncReplicasOptimizer)
        hooks = [optimizer.make_session_run_hook(True)] if is_sync else []
        with v1.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as session:
            session.run(train)
            assert session.run(step) == 1
            return session.run([table, other])


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda opt: tf_condacc.SyncReplicasOptimizer(opt, 1),
        tf_condacc.TowerOptimizer,
        lambda opt: tf_condacc.DropStaleGradientOptimizer(opt, 2),
    ],
    ids=["SyncReplicas", "Tower", "DropStale"],
)
def test_the_gradients_of_a_variable_that_occurs_twice_are_added(wrap, kind):
    table, other = after_a_step(wrap, kind)
    # The gradient of row 0 is 2·(2·1) + 2·3, and that of row 2 is 2·4 + 3.
    np.testing.assert_array_equal(table, [[1 - 10 / 4], [2], [4 - 11 / 4]])
    assert other == 0.75


@pytest.mark.parametrize("wraps", [True, False])
def test_a_doubled_variable_makes_one_update_of_the_wrapped_optimizer(wraps):
    """Two updates of Adam would be others than one of the sum."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("w", initializer=np.float32(1))
        adam = v1.train.AdamOptimizer(0.1)
        optimizer = tf_condacc.SyncReplicasOptimizer(adam, 1) if wraps else adam
        gradients = [2.0, 3.0] if wraps else [5.0]
        train = optimizer.apply_gradients([(tf.constant(g), weight) for g in gradients], step)
        hooks = [optimizer.make_session_run_hook(True)] if wraps else []
        with v1.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as session:
            session.run(train)
            assert session.run(weight) == np.float32(0.9)
            assert len(session.run(adam.variables())) == 4


def test_half_gradients_of_a_doubled_variable_are_rounded_once(v1_graph):
    weight = v1.get_variable("w", initializer=tf.zeros([1], tf.float16))
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(-1.0), 1)
    parts = [tf.constant([value], tf.float16) for value in (2048.0, 1.0, 1.0)]
    train = optimizer.apply_gradients(
        [(part, weight) for part in parts], v1.train.get_or_create_global_step()
    )
    with monitored(optimizer) as session:
        session.run(train)
        assert session.run(weight) == [2050.0]


def test_calls_with_the_same_variables_share_their_rounds(two_ps):
    """As programs for sequences do that have a loss for each length, on two workers."""
    programs = []
    for task in range(2):
        graph = tf.Graph()
        with graph.as_default(), v1.device(two_ps.device(task)):
            step = v1.get_variable(
                "buckets_step", initializer=tf.constant(0, tf.int64), trainable=False
            )
            weight = v1.get_variable("buckets_w", initializer=tf.zeros([], tf.float64))
            optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(-2.0), 2, name="buckets"
            )
            trains = [
                optimizer.apply_gradients([(tf.constant(10.0**n, tf.float64), weight)], step)
                for n in (0, 1)
            ]
            session = monitored(optimizer, two_ps.targets[task], is_chief=task == 0)
        programs.append((session, trains, weight))
    for first, second in ((0, 1), (1, 0), (1, 1)):
        in_threads(
            *(
                lambda session=session, train=trains[which]: session.run(train)
                for (session, trains, _), which in zip(programs, (first, second), strict=True)
            )
        )
    session, _, weight = programs[0]
    assert session._tf_sess().run(weight) == 2 * 11.0 + 20.0
    for session, _, _ in programs:
        session.close()


def test_calls_with_other_variables_have_rounds_of_their_own_and_one_hook(v1_graph):
    """As programs do that train a generator and a discriminator in turn."""
    step = v1.train.get_or_create_global_step()
    variables = [v1.get_variable(name, initializer=[0.0]) for name in "ab"]
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(-1.0), 1)
    one = tf.constant([1.0])
    first = optimizer.apply_gradients([(one, variables[0])], step)
    runner = optimizer.get_chief_queue_runner()
    second = optimizer.apply_gradients([(one, variables[1])], step)
    both = optimizer.apply_gradients([(one, variables[0]), (one, variables[1])], step)
    assert optimizer.get_chief_queue_runner() is runner and len(runner.enqueue_ops) == 3
    dropped = optimizer.num_dropped()
    with monitored(optimizer) as session:
        for train in (first, second, second, both, first):
            session.run(train)
        assert [value[0] for value in session.run(variables)] == [3.0, 3.0]
        assert session.run([step, dropped]) == [5, 0]


def test_a_second_global_step_is_refused(v1_graph):
    weight = v1.get_variable("w", initializer=0.0)
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
    optimizer.minimize(weight, v1.train.get_or_create_global_step())
    other = v1.get_variable("other_step", initializer=0, trainable=False)
    with pytest.raises(ValueError, match="'other_step' after 'global_step'"):
        optimizer.minimize(weight, other)


def test_an_optimizer_can_be_used_in_one_graph_after_another():
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(-1.0), 1)
    for _ in range(2):
        with tf.Graph().as_default():
            weight = v1.get_variable("w", initializer=0.0)
            one = tf.constant(1.0)
            train = optimizer.apply_gradients([(one, weight)], v1.train.get_or_create_global_step())
            with monitored(optimizer) as session:
                session.run(train)
                assert session.run(weight) == 1.0


@pytest.mark.parametrize("kind", ["Placeholder", "PlaceholderWithDefault"])
def test_a_learning_rate_that_steps_feed_is_reported(v1_graph, kind, caplog):
    rate = v1.placeholder(tf.float32, [], name="rate")
    if kind == "PlaceholderWithDefault":
        rate = v1.placeholder_with_default(0.5, [], name="rate_or_default")
    weight = v1.get_variable("w", initializer=0.0)
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(rate), 1)
    optimizer.minimize(weight, v1.train.get_or_create_global_step())
    (line,) = [record.getMessage() for record in caplog.records if "placeholder" in record.msg]
    assert rate.op.name in line and "sync_replicas" in line


@pytest.mark.parametrize("where", ["cond", "while"])
def test_a_branch_or_a_loop_of_control_flow_v2_is_refused_in_words(where):
    with control_flow(2), tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("w", initializer=0.0, use_resource=True)
        optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)

        def build() -> tf.Operation:
            return tf.group(optimizer.apply_gradients([(tf.constant(1.0), weight)], step))

        def body(i):
            with tf.control_dependencies([build()]):
                return i + 1

        with pytest.raises(RuntimeError, match="disable_control_flow_v2"):
            if where == "cond":
                tf.cond(v1.placeholder_with_default(True, []), build, tf.no_op)
            else:
                tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])


@pytest.mark.parametrize(
    "made_again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))]
)
def test_a_copy_has_a_gate_of_its_own_or_is_refused(v1_graph, made_again):
    step = v1.train.get_or_create_global_step()
    weight = v1.get_variable("w", initializer=0.0)
    optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(-1.0), 1)
    copied = made_again(optimizer)
    train = [
        each.apply_gradients([(tf.constant(1.0), weight)], step) for each in (optimizer, copied)
    ]
    assert optimizer.get_chief_queue_runner() is not copied.get_chief_queue_runner()
    hooks = [each.make_session_run_hook(True) for each in (optimizer, copied)]
    with v1.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as session:
        for _ in range(6):  # Those of the original share one token queue, and wait at step 4.
            for each in train:
                session.run(each)
        assert session.run(weight) == 12.0
    with pytest.raises(TypeError, match="'sync_replicas' cannot be copied or pickled after"):
        made_again(optimizer)
