"""Tests of how tasks notice others whose processes have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import tensorflow as tf

from condacc.liveness import Answer
from tests.support.waiting import PATIENCE_SECS, until_set
from tf_condacc import _times
from tf_condacc.cluster import _liveness
from tf_condacc.cluster._sessions import ResumptionHook

v1 = tf.compat.v1
A, R, S = Answer.ANSWERED, Answer.REFUSED, Answer.SILENT


@pytest.mark.parametrize(
    ("answers", "num_told"),
    [
        ([R, R, R, R], 0),  # It has not started yet.
        ([A, R, A, R, A], 0),  # It is restarted at once.
        ([A, S, S, S], 0),  # It is frozen.
        ([R, A, R, R], 1),
        # It may have come back between two requests, and then ended again.
        ([A, R, R, R, R], 3),
        ([A, R, R, A, R, R], 2),
        ([A, R, S, R, S, R], 2),
    ],
)
def test_a_worker_is_lost_when_it_refuses_twice_after_an_answer(monkeypatch, answers, num_told):
    remaining: Iterator[Answer] = iter(answers)
    all_asked = threading.Event()
    told: list[str] = []

    def probe(address: str, timeout_secs: float) -> Answer:
        assert address == "localhost:1"
        answer = next(remaining, None)
        if answer is None:
            all_asked.set()
        return answer or Answer.UNRESOLVED

    monkeypatch.setattr(_liveness, "probe", probe)
    times = _times.Times(worker_interval_secs=0, first_interval_secs=0)
    monkeypatch.setattr(_times, "current", times)
    workers = _liveness.LostWorkers({"worker 1": "localhost:1"}, told.append)
    workers.start()
    until_set(all_asked, "all answers are given")
    workers.stop()
    assert workers.join(PATIENCE_SECS)
    assert told == ["worker 1"] * num_told


def test_a_worker_that_has_not_answered_is_asked_more_often(monkeypatch):
    asked: list[str] = []
    enough = threading.Event()

    def probe(address: str, timeout_secs: float) -> Answer:
        asked.append(address)
        if asked.count("new") >= 10:
            enough.set()
        return Answer.ANSWERED if address == "known" else Answer.REFUSED

    monkeypatch.setattr(_liveness, "probe", probe)
    times = _times.Times(worker_interval_secs=PATIENCE_SECS, first_interval_secs=0)
    monkeypatch.setattr(_times, "current", times)
    workers = _liveness.LostWorkers({"a": "known", "b": "new"}, asked.append)
    workers.start()
    until_set(enough, "the new worker is asked ten times")
    workers.stop()
    assert workers.join(PATIENCE_SECS)
    assert asked.count("known") == 1


@pytest.mark.parametrize(
    ("incarnations", "lost"),
    [
        ([(1, 2)], None),
        ([(1, 2), (1, 3)], "ps 1"),
        ([(1, 2), (4, 3)], "ps 0, ps 1"),
        ([(1, 2), (1, 2)], "a connection"),
    ],
)
def test_a_session_that_replaces_another_says_what_was_lost(caplog, incarnations, lost):
    hook = ResumptionHook()
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(v1.train.create_global_step().assign(7))
        for numbers in incarnations:
            devices = [
                SimpleNamespace(name=f"/job:ps/task:{task}/device:CPU:0", incarnation=number)
                for task, number in enumerate(numbers)
            ]
            session.list_devices = lambda devices=devices: devices
            hook.after_create_session(session, tf.train.Coordinator())
    told = [] if lost is None else [f"Training goes on from step 7 after the loss of {lost}."]
    assert caplog.messages == told
