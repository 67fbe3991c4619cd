"""Tests of the ends of sessions and processes, of Ctrl-C and of warnings, in other processes."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.isolated import isolated
from tests.support.accumulator_support import GraphDriver, every_kind, needs_resource, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind
# TensorFlow shows warnings, and our warning about a waiting take comes after one second.
with_warnings = isolated({"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "1"})
_left_behind = []


@with_warnings
def test_closing_a_session_ends_four_hundred_waiting_takes(impl):
    with tf.Graph().as_default() as graph:
        accumulators = [impl.dense(tf.float32, []) for _ in range(20)]
        counts = [acc.num_accumulated() for acc in accumulators]
        takes = [acc.take_grad(1) for acc in accumulators for _ in range(20)]
    session = v1.Session(graph=graph)
    session.run(counts)
    waiting = Background(session.run, takes)
    waiting.wait_until_blocked()
    session.close()
    assert isinstance(waiting.error(), tf.errors.CancelledError)


@with_warnings
def test_sessions_with_a_waiting_take_are_closed_and_deleted(impl):
    for _ in range(20):
        acc = GraphDriver(impl)
        waiting = acc.start_take(1)
        acc.close()
        assert isinstance(waiting.error(), tf.errors.CancelledError)
        del acc, waiting


@isolated(alone=True)
@needs_resource
def test_process_exits_with_waiting_takes(impl):
    """The exit status of the process is checked as well."""
    acc = GraphDriver(impl)
    acc.start_take(1)
    eager = impl.dense(tf.float32, [], shared_name=unique_name("left"))
    Background(lambda: eager.take_grad(1)).wait_until_blocked()
    Background(tf.function(lambda: eager.take_grad(2))).wait_until_blocked()
    _left_behind.extend([acc, eager])


@isolated(alone=True)
def test_process_exits_while_daemon_threads_work():
    """Threads that make tensors of Python numbers would abort the process, often but not always.

    One of the threads fills a sparse accumulator, whose folds have threads of their own. The exit
    status of the process is checked as well.
    """
    gradient = tf.ones([1000])
    acc = tf_condacc.ConditionalAccumulator(tf.float32, [1000])
    slices = tf.IndexedSlices(tf.ones([100_000, 64]), tf.range(100_000, dtype=tf.int64))
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [None, 64])

    def fill() -> None:
        while True:
            sparse.apply_indexed_slices_grad(slices, 2**60)

    def use() -> None:
        while True:
            acc.try_apply_grad(gradient, 2**60)
            acc.try_apply_grad(gradient, 0, contributor=3)
            acc.try_apply_grad(gradient, 2**60, weight=2.0)
            acc.try_take_grad(3)

    threading.Thread(target=fill, daemon=True).start()
    while int(sparse.num_accumulated()) < 20:  # A fold begins before.
        time.sleep(0.01)
    for _ in range(6):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(0.3)


def interrupt_main_thread_once_blocked() -> threading.Thread:
    """Sends SIGINT to this process when its main thread is blocked."""

    def watch() -> None:
        quiet, last, path = 0, "", f"/proc/self/task/{os.getpid()}/stat"
        while quiet < 100:
            with open(path) as file:
                fields = file.read().rpartition(")")[2].split()
            cpu_time = " ".join(fields[11:13])
            quiet = quiet + 1 if fields[0] == "S" and cpu_time == last else 0
            last = cpu_time
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@with_warnings
def test_ctrl_c_ends_an_eager_take(ours):
    acc = ours.dense(tf.float32, [])
    acc.apply_grad(2.0)
    interrupt_main_thread_once_blocked()
    with pytest.raises(KeyboardInterrupt):
        acc.take_grad(2)
    assert int(acc.num_accumulated()) == 1, "an interrupted take takes nothing"
    acc.apply_grad(4.0)
    assert acc.take_grad(2).numpy() == 3.0, "no interrupted take may be left in the queue"


@with_warnings
def test_lower_step_is_warned_about(impl, capfd):
    acc = GraphDriver(impl, name="lowered")
    acc.set_step(6)
    acc.set_step(6)
    acc.set_step(7)
    acc.set_step(2)
    acc.apply([1.0], 2)
    assert acc.count() == 1
    lines = capfd.readouterr().err.splitlines()
    (line,) = [each for each in lines if "current_global_step_ to smaller value" in each]
    assert re.search(r"\b7\b.*\b2\b", line.partition("smaller value")[2])
    if impl.ours:
        assert "lowered" in line


def retried(acc: GraphDriver, until: float) -> None:
    while time.monotonic() < until:
        with pytest.raises(tf.errors.DeadlineExceededError):
            acc.take(1, options=v1.RunOptions(timeout_in_ms=200))


def polled(acc: GraphDriver, until: float) -> None:
    while time.monotonic() < until:
        acc.apply([1.0], 3)
        assert not acc.try_take(2)[0]
        time.sleep(0.05)


@with_warnings
def test_stalls_are_warned_about_again_after_twice_the_time(ours, capfd):
    quick = GraphDriver(ours, name="quick_one")
    waiting = quick.start_take(1)
    quick.apply([1.0])
    waiting.result()
    names = ("stalled_one", "late_gradient", "untouched", "refusing", "retried", "polled")
    accs = {name: GraphDriver(ours, name=name) for name in names}
    acc, late, refusing = accs["stalled_one"], accs["late_gradient"], accs["refusing"]
    acc.set_step(7)
    acc.apply([1.0], 7)
    acc.apply([1.0], 8)
    for _ in range(3):
        acc.apply([1.0], 0)
    late.set_step(7)
    late.apply([1.0], 3)
    with refusing.graph.as_default():
        outcomes = [
            refusing.accumulator.apply_contribution([1.0], contributor, step)
            for contributor, step in [(4, 0), (4, 0), (4, 0), (6, 9)]
        ]
    for outcome in outcomes:
        refusing.run(outcome)
    accs["polled"].set_step(7)
    until = time.monotonic() + 3.5  # The warnings come after one and two seconds.
    loops = [
        Background(retried, accs["retried"], until),
        Background(polled, accs["polled"], until),
    ]
    waiting, behind, waiting_too = acc.start_take(5), acc.start_take(2), late.start_take(1)
    for name in ("untouched", "refusing"):
        accs[name].start_take(2)
    for loop in loops:
        loop.result()
    for _ in range(3):
        acc.apply([1.0], 7)
    assert waiting.result() == [1.0]
    for _ in range(2):
        acc.apply([1.0], 8)
    assert behind.result() == [1.0]
    late.apply([1.0], 7)
    assert waiting_too.result() == [1.0]
    for each in accs.values():
        each.close()
    lines = [line for line in capfd.readouterr().err.splitlines() if "gradients at" in line]
    found = {name: [line for line in lines if f"'{name}'" in line] for name in names}
    first = {name: found[name][0] for name in names}
    assert all(2 <= len(each) <= 3 for each in found.values()), "after 1, 2 and perhaps 4 seconds"
    for each in found.values():
        seconds = [float(re.search(r"([\d.]+) s\b", line)[1]) for line in each]
        assert seconds[0] >= 1 and seconds[1] >= 2 * seconds[0] - 0.1, seconds

    line = first["stalled_one"]
    assert "has 2 of 5 gradients at global step 7" in line
    assert "3 stale gradients were dropped" in line
    assert "1 more take waits behind it" in line, "the second take has enough"
    assert re.search(r" W | W\d{4} |WARN|^W", line), "it is a warning"
    assert "local step 0, the default of apply_grad: pass local_step=" in line
    line = first["late_gradient"]
    assert "the last of them with local step 3, and no gradient was added since" in line
    assert "was global_step restored? Call set_global_step or reset." in line
    assert "default" not in line, "only a default step is blamed"
    assert "no gradient has ever come to this accumulator" in first["untouched"]
    assert (
        "2 gradients were refused as duplicates, the last of them of contributor 4"
        in (first["refusing"])
    )
    assert "1 gradients were refused because they were ahead" in first["refusing"]
    assert "contributor 6 with local step 9" in first["refusing"]
    assert "waits for long" in first["retried"]
    assert "find too few gradients" in first["polled"]
    assert "has 0 of 2 gradients at global step 7" in first["polled"]
    assert not any("quick_one" in line for line in lines), "it has ended in time"
