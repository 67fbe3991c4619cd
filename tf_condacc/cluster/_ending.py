"""How parameter servers learn that training has ended.

A TensorFlow server cannot be stopped; it ends with its process. Each parameter server has a queue
into which the tasks that train put a report when they begin and when they end. When the chief has
ended, the server fills another queue, from which workers that are late learn that they need not
begin.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from condacc.liveness import Answer, probe
from condacc.tf_config import PS_JOB
from tf_condacc import _times

_LOG = logging.getLogger("tf_condacc")
_REPORTS = "tf_condacc/cluster/reports"
_BEGINS, _ENDS = "+", "-"  # The first character of a report. The task's name follows.
_CHIEF_HAS_ENDED = "tf_condacc/cluster/chief_has_ended"


class TrainingHasEndedError(tf.errors.OutOfRangeError):
    """Raised in a task that starts to train after the chief has ended."""

    def __init__(self) -> None:
        super().__init__(None, None, "The chief has ended: there is nothing left to train.")


def await_end(target: str, ps: int, tasks: Iterable[str], chief: str, grace_secs: float) -> None:
    """Waits in a parameter server until training has ended.

    Training has ended when all tasks have reported their end, or `grace_secs` after the chief has
    reported its end.

    Args:
        target: Target of the server.
        ps: Number of the parameter server.
        tasks: Names of the tasks that train.
        chief: Name of the chief among them.
        grace_secs: The time limit.

    Raises:
        tf.errors.OpError: The reports cannot be read.
    """
    running = set(tasks)
    failures: list[BaseException] = []
    changed = threading.Condition()

    def note(report: str) -> None:
        with changed:
            change = running.add if report[0] == _BEGINS else running.discard
            change(report[1:])
            changed.notify_all()

    def read() -> None:
        try:
            with _session(target, ps, lambda: _queue(ps, _REPORTS).dequeue()) as run:
                while True:
                    note(run().decode())
        except BaseException as error:
            with changed:
                failures.append(error)
                changed.notify_all()

    # A session's steps cannot be interrupted, but Ctrl-C must interrupt the main thread.
    threading.Thread(target=read, daemon=True).start()
    with changed:
        changed.wait_for(lambda: chief not in running or failures)
    if not failures:
        _run(target, ps, lambda: _queue(ps, _CHIEF_HAS_ENDED).enqueue(chief))
    with changed:
        changed.wait_for(lambda: not running or failures, grace_secs)
        if failures:
            raise failures[0]
        if running:
            _LOG.warning(
                "Parameter server %d ends: the chief ended %g s ago; these tasks did not: %s",
                ps,
                grace_secs,
                ", ".join(sorted(running)),
            )


def await_processes(addresses: Iterable[str], timeout_secs: float) -> None:
    """Waits in a parameter server until the processes of other tasks have ended.

    Such a process may still close sessions after its report. It would log errors if this server
    were gone, or take its report for lost.

    Args:
        addresses: Addresses of the tasks.
        timeout_secs: Time limit. A program may continue long after it has trained.
    """
    end = time.monotonic() + timeout_secs
    for address in addresses:
        while (left := end - time.monotonic()) > 0:
            if probe(address, left) is not Answer.ANSWERED:
                break
            time.sleep(0.02)


def report_begin(target: str, own_name: str, num_ps: int, timeout_secs: float) -> None:
    """Tells all parameter servers that this task begins to train. Waits for them.

    Raises:
        TrainingHasEndedError: The chief has ended.
        tf.errors.DeadlineExceededError: The parameter servers did not answer in time.
    """

    def build() -> tf.Tensor:
        reports = [_queue(ps, _REPORTS).enqueue(_BEGINS + own_name) for ps in range(num_ps)]
        with tf.control_dependencies(reports):
            return _queue(0, _CHIEF_HAS_ENDED).size()

    (done,) = _in_threads([lambda: _run(target, None, build)], timeout_secs)
    if isinstance(done, BaseException):
        raise done
    if done is None:
        raise tf.errors.DeadlineExceededError(
            None, None, f"The parameter servers did not answer within {timeout_secs:g} s."
        )
    if done > 0:
        raise TrainingHasEndedError


def raise_if_ended(target: str, address: str) -> None:
    """Raises an error if the chief has ended. Does nothing if the parameter server is silent.

    Args:
        target: Target of the server of this task.
        address: Address of the first parameter server.

    Raises:
        TrainingHasEndedError: The chief has ended.
    """
    if not address or probe(address, _times.current.ps_answer_secs) is not Answer.ANSWERED:
        return
    looks = [lambda: _run(target, 0, lambda: _queue(0, _CHIEF_HAS_ENDED).size())]
    (done,) = _in_threads(looks, _times.current.report_end_secs)
    if isinstance(done, int | np.integer) and done > 0:
        raise TrainingHasEndedError


def report_end(target: str, own_name: str, addresses: list[str]) -> None:
    """Tells all parameter servers that this task has ended. Warns of those that do not answer.

    Args:
        target: Target of the server of this task.
        own_name: Name of this task.
        addresses: Addresses of the parameter servers.
    """
    end = time.monotonic() + _times.current.report_end_secs

    def report(ps: int) -> bool:
        was_sent = False
        while True:
            # A session would wait for a lost server forever.
            answer = probe(addresses[ps], _times.current.ps_answer_secs)
            if answer is Answer.ANSWERED:
                with contextlib.suppress(tf.errors.UnavailableError, tf.errors.AbortedError):
                    was_sent = True
                    _run(target, ps, lambda: _queue(ps, _REPORTS).enqueue(_ENDS + own_name))
                    return True
            elif answer is Answer.REFUSED and was_sent:
                return True  # The server ended because it got the report.
            if time.monotonic() >= end:
                return False
            time.sleep(0.1)

    # A server may freeze at any time, and a step cannot be interrupted.
    calls = [lambda ps=ps: report(ps) for ps in range(len(addresses))]
    for ps, done in enumerate(_in_threads(calls, _times.current.report_end_secs + 1)):
        if done is not True:
            _LOG.warning(
                "Parameter server %d (%s) could not be notified of the end.", ps, addresses[ps]
            )


def _in_threads(calls: Sequence[Callable[[], Any]], timeout_secs: float) -> list[Any]:
    """Calls functions, each in a separate daemon thread.

    Args:
        calls: The functions.
        timeout_secs: Time limit for all of them together.

    Returns:
        For each function its result, the error that it raised, or None if it did not end in time.
    """
    results: list[Any] = [None] * len(calls)

    def call(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:
            results[number] = error

    threads = [
        threading.Thread(target=call, args=(number,), daemon=True) for number in range(len(calls))
    ]
    end = time.monotonic() + timeout_secs
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    return results


@contextlib.contextmanager
def _session(target: str, ps: int | None, build: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Builds operations, and yields a function that runs them in a separate session.

    Args:
        target: Target of the session.
        ps: The only parameter server that the session needs; None for all.
        build: Builds the operations.
    """
    with tf.Graph().as_default() as graph:
        built = build()
    task = "" if ps is None else f"/task:{ps}"
    config = v1.ConfigProto(device_filters=[f"/job:{PS_JOB}{task}"])
    with v1.Session(target, graph=graph, config=config) as session:
        yield lambda: session.run(built)


def _run(target: str, ps: int | None, build: Callable[[], Any]) -> Any:
    with _session(target, ps, build) as run:
        return run()


def _queue(ps: int, name: str) -> v1.FIFOQueue:
    with v1.device(f"/job:{PS_JOB}/task:{ps}/device:CPU:0"):
        return v1.FIFOQueue(-1, [tf.string], [[]], shared_name=name)
