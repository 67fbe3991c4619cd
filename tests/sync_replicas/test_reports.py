"""Tests of the messages about rounds that last for too long."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import tf_condacc
from condacc import tf_config
from tests.support.waiting import PATIENCE_SECS, until

v1 = tf.compat.v1


def await_lines(caplog: pytest.LogCaptureFixture, *parts: str, count: int = 1) -> None:
    """Waits for messages that have all parts."""
    until(
        lambda: sum(all(part in line for part in parts) for line in caplog.messages) >= count,
        f"{count} messages with {parts}",
        lambda: "\n".join(caplog.messages),
    )


def test_a_queue_runner_that_was_not_started_is_reported(two_ps, training, caplog):
    """The original waits in silence."""
    run = training(two_ps, 1, 2, configure={"report_secs": 0.3})
    chief = run.models[0]
    with chief.graph.as_default(), v1.Session(two_ps.targets[0]) as session:
        session.run(v1.global_variables_initializer())
        session.run(chief.optimizer.chief_init_op)
    run.start(1)
    run.steps_on_thread(1)
    await_lines(caplog, "/gate' is at round 1", "queue runner has not been started")


def test_chief_and_workers_say_who_is_missing(two_ps, training, caplog):
    run = training(two_ps, 3, 3, configure={"report_secs": 0.3})
    run.start(0, 1)
    run.steps_on_thread(0)
    run.steps_on_thread(1)
    await_lines(caplog, "of 3 gradients", "never seen:", count=2)
    # Each of them reports a round once, perhaps before both have come. This is what they say then.
    run.await_state(lambda state: state.num_complete == 2)
    _, report = run.values(lambda model: model.optimizer._graph.reports._report)
    for part in ("/job:worker/task:0", "/job:worker/task:1", "never seen: 1 of 3 workers"):
        assert part in report.decode()


@pytest.mark.parametrize("is_launched", [False, True])
def test_a_worker_that_comes_after_the_end_of_training_ends(
    two_ps, training, caplog, monkeypatch, is_launched
):
    if is_launched:
        monkeypatch.setenv(tf_config.LAUNCHED, "1")
    report_secs = None if is_launched else 0.3
    run = training(two_ps, 1, 2, configure={"report_secs": report_secs})
    for task in range(2):
        run.start(task, last_step=3)
        run.train_on_thread(task)
        run.join()
    await_lines(caplog, "ends before its first step: training has ended")


def test_the_chief_says_once_who_has_not_come(two_ps, training, caplog, monkeypatch):
    """The others compute for a listed worker that comes late, until it comes."""
    config = {"cluster": two_ps.spec, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    run = training(two_ps, 2, 2, configure={"start_secs": 0.3, "report_secs": PATIENCE_SECS})
    run.start(0)
    first = run.train_on_thread(0)
    await_lines(caplog, "2 of 3 listed workers (/job:worker/task:1, /job:worker/task:2), which")
    until(lambda: run.num_pushes(0, "w") > 2, "training goes on")
    run.start(1)
    second = run.train_on_thread(1)
    added = tf_condacc.ApplyOutcome.ADDED
    until(lambda: run.num_pushes(1, "w", added) > 1, "the late worker takes part")
    assert not first.done and not second.done
    assert sum("listed workers" in line for line in caplog.messages) == 1
