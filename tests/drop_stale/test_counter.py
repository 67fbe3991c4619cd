"""Tests of the variable `stale_counter`, of the exact counts beside it, and of the summaries."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    LateTraining,
    drop_stale,
    every_switches,
    global_step,
    half_square,
    stale_counter,
)

v1 = tf.compat.v1


def build(step=None) -> tuple:
    """Returns an optimizer and the result of its `minimize`."""
    step = global_step() if step is None else step
    weights = v1.get_variable("w", initializer=tf.constant(START))
    optimizer = drop_stale()
    return optimizer, optimizer.minimize(half_square(weights), step)


def summaries(session: v1.Session) -> dict:
    """Returns the values of all summaries of the default graph, by tag."""
    merged = v1.summary.Summary.FromString(session.run(v1.summary.merge_all()))
    return {value.tag: value for value in merged.value}


@every_switches
def test_counter_is_the_variable_that_it_always_was(switches):
    build()
    counter = stale_counter()
    assert (counter.dtype.base_dtype, counter.shape.as_list()) == (tf.float32, [])
    assert not counter.trainable
    holding = [
        key
        for key in v1.get_default_graph().get_all_collection_keys()
        if any(item is counter for item in v1.get_collection(key))
    ]
    assert holding == [v1.GraphKeys.GLOBAL_VARIABLES]
    assert counter.dtype._is_ref_dtype != switches.resource
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(counter) == 0.0


def test_counter_and_summaries_are_in_the_scopes_in_which_gradients_are_applied(v1_graph):
    step = global_step()
    with v1.variable_scope("model"):
        weights = v1.get_variable("w", initializer=tf.constant(START))
        optimizer = drop_stale()
        pairs = optimizer.compute_gradients(half_square(weights))
    with v1.variable_scope("outer", initializer=v1.ones_initializer()), v1.name_scope("other"):
        optimizer.apply_gradients(pairs, step)
    counter = stale_counter("outer/stale_counter:0")
    with v1.variable_scope("outer", reuse=True):
        assert v1.get_variable("stale_counter", shape=()) is counter
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(counter) == 0.0, "it has an initializer of its own"
        assert "outer/other/Gradient_staleness_percentage" in summaries(session)


def test_counter_is_on_the_device_of_the_step(v1_graph):
    with v1.device("/job:ps/task:1/cpu:0"):
        step = global_step()
    with v1.device("/job:worker/task:0/cpu:0"):
        build(step)
    assert stale_counter().device == step.device == "/job:ps/task:1/device:CPU:0"
    assert stale_counter().op.colocation_groups() == step.op.colocation_groups()


@every_switches
def test_everything_that_decides_or_counts_runs_on_the_device_of_the_step(switches):
    with v1.device("/cpu:1"):
        step = global_step()
    with v1.device("/cpu:0"):
        optimizer, result = build(step)
        fetches = [result, optimizer.num_dropped(), optimizer.num_accepted()]
        fetches.append(v1.summary.merge_all())
    with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(v1.global_variables_initializer())
        metadata = v1.RunMetadata()
        options = v1.RunOptions(output_partition_graphs=True)
        session.run(fetches, options=options, run_metadata=metadata)
    nodes = [node for part in metadata.partition_graphs for node in part.node]
    devices = {
        node.op.partition(">")[2]: node.device[-5:] for node in nodes if "StalenessGate" in node.op
    }
    decide = "StalenessGateDecide" if switches.resource else "StalenessGateDecideRef"
    rest = ("", "End", "NumAccepted", "NumDropped", "RecentStaleness")
    assert devices == dict.fromkeys([decide, *(f"StalenessGate{op}" for op in rest)], "CPU:1")


def test_result_is_the_count_of_dropped_updates(v1_graph):
    training = LateTraining()
    assert isinstance(training.train, tf.Tensor)
    assert training.train.dtype.base_dtype == tf.float32
    assert training.train.shape.as_list() == []
    counts = [training.run(late_by) for late_by in (1, 0, 2, 0)]
    assert counts == [1.0, 1.0, 2.0, 2.0]
    assert counts[0].dtype == np.float32


@pytest.mark.parametrize("switches", ["ref"], indirect=True)
def test_result_has_the_name_that_it_always_had(switches):
    _, result = build()
    assert (result.name, result.dtype) == ("AssignAdd:0", tf.float32._as_ref)
    assert result.op.inputs[0] is stale_counter()._ref()


def test_running_the_operation_of_the_result_trains(v1_graph):
    training = LateTraining()
    training.session.run(training.train.op)
    training.expect(step=1, weights=np.divide(START, 2.0), accepted=1, dropped=0)


def test_ratio_summary_has_its_tag_and_value(v1_graph):
    training = LateTraining()
    for late_by in (2, 0, 1, 1):
        training.run(late_by)
    ratio = summaries(training.session)["Gradient_staleness_percentage"].simple_value
    assert ratio == np.float32(3.0) / np.float32(6.0)
    training.session.run(training.step.assign(0))
    ratio = summaries(training.session)["Gradient_staleness_percentage"].simple_value
    assert ratio == 3.0, "a ratio may exceed 1"


def test_histogram_summary_holds_every_staleness(v1_graph):
    training = LateTraining(drop_stale(2))
    late = [0, 3, 1, 0, 7, 2]
    for late_by in late:
        training.run(late_by)
    histogram = summaries(training.session)["Gradient_staleness"].histo
    assert (histogram.num, histogram.min, histogram.max) == (len(late), 0.0, 7.0)
    assert (histogram.sum, histogram.sum_squares) == (sum(late), sum(one * one for one in late))


def test_summaries_alone_decide_and_count_nothing(v1_graph):
    training = LateTraining()
    tags = summaries(training.session)
    assert tags["Gradient_staleness_percentage"].simple_value == 0.0
    assert tags["Gradient_staleness"].histo.num == 0.0
    training.run(late_by=1)
    for _ in range(3):
        tags = summaries(training.session)
    assert tags["Gradient_staleness_percentage"].simple_value == 0.5
    assert tags["Gradient_staleness"].histo.num == 1.0
    training.expect(step=1, weights=START, accepted=0, dropped=1)


def test_exact_counts_go_on_where_the_variable_stops(v1_graph):
    training = LateTraining(drop_stale(-1))
    training.session.run(stale_counter().assign(2.0**24))
    assert [training.run() for _ in range(3)] == [2.0**24] * 3
    assert training.counts() == (0, 3)


def test_exact_counts_are_int64_scalars(v1_graph):
    training = LateTraining()
    for count in (training.optimizer.num_dropped(), training.optimizer.num_accepted()):
        assert (count.dtype, count.shape.as_list()) == (tf.int64, [])
    assert training.optimizer.num_dropped(name="my_count").name.startswith("my_count")


@pytest.mark.parametrize("late_by", [0, 1])
def test_exact_counts_include_an_update_once_its_step_has_run(v1_graph, late_by):
    training = LateTraining()
    with tf.control_dependencies([training.train]):
        counts = [training.optimizer.num_accepted(), training.optimizer.num_dropped()]
    training.session.run(training.step.initializer)
    training.interlude.action = lambda: training.advance(late_by)
    assert training.session.run(counts) == [1 - late_by, late_by]
