"""Tests of the ends of sessions and processes, of Ctrl-C and of warnings, in other processes."""

from __future__ import annotations

import functools
import itertools
import os
import re
import signal
import threading

import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.support.calls import SessionCalls
from tests.processes.isolated import isolated
from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.many_threads import FAR_AHEAD
from tests.support.waiting import Background, until
from tf_condacc._accumulators import eager

v1 = tf.compat.v1
pytestmark = every_kind
# TensorFlow shows warnings, and our warning about a waiting take would come after an hour.
with_warnings = isolated({"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "3600"})
_left_behind = []


@isolated(alone=True)
@needs_resource
def test_process_exits_with_waiting_takes(impl):
    """The exit status of the process is checked as well."""
    acc = SessionCalls(impl)
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

    calls = [0] * 6

    def use(number: int) -> None:
        while True:
            calls[number] += 1
            acc.try_apply_grad(gradient, 2**60)
            acc.apply_contribution(gradient, 3)
            acc.try_apply_grad(gradient, 2**60, weight=2.0)
            acc.try_take_grad(3)

    threading.Thread(target=fill, daemon=True).start()
    until(lambda: int(sparse.num_accumulated()) >= 20, "a fold has begun")
    for number in range(6):
        threading.Thread(target=use, args=[number], daemon=True).start()
    until(lambda: min(calls) >= 20, "each thread works")


@with_warnings
def test_ctrl_c_ends_an_eager_take(ours, monkeypatch, poll_secs):
    monkeypatch.setattr(eager, "_POLL_SECONDS", poll_secs)
    acc = ours.dense(tf.float32, [])

    def is_waited_for() -> bool:
        """Returns whether a gradient cannot be taken, because another take comes first."""
        acc.apply_grad(2.0, FAR_AHEAD)
        return not acc.try_take_grad(1)[0]

    def interrupt() -> None:
        until(is_waited_for, "the take waits")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        acc.take_grad(2)
    assert int(acc.num_accumulated()) == 1, "an interrupted take takes nothing"
    acc.apply_grad(4.0, FAR_AHEAD)
    assert acc.take_grad(2).numpy() == 3.0, "no interrupted take may be left in the queue"


@with_warnings
def test_lower_step_is_warned_about(impl, capfd):
    acc = SessionCalls(impl, name="lowered")
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


@with_warnings
def test_a_take_that_is_served_in_time_is_not_warned_about(ours, capfd):
    acc = SessionCalls(ours, name="quick_one")
    waiting = acc.start_take(1)
    acc.apply([1.0])
    waiting.result()
    assert "gradients at" not in capfd.readouterr().err


# The texts of the warnings, by the name of the accumulator.
STALLS = {
    "stalled_one": (
        "waits for long",
        "has 2 of 5 gradients at global step 7",
        "3 stale gradients were dropped",
        "1 more take waits behind it",  # Although this take has enough.
        "local step 0, the default of apply_grad: pass local_step=",
    ),
    "late_gradient": (
        "waits for long",
        "the last of them with local step 3, and no gradient was added since",
        "was global_step restored? Call set_global_step or reset.",
    ),
    "untouched": ("waits for long", "no gradient has ever come to this accumulator"),
    "retried": ("waits for long",),
    "polled": ("find too few gradients", "has 0 of 2 gradients at global step 7"),
}


@isolated({"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": "0.05"})
def test_stalls_are_warned_about_again_after_twice_the_time(ours, capfd):
    accs = {name: SessionCalls(ours, name=name) for name in STALLS}
    acc, late = accs["stalled_one"], accs["late_gradient"]
    acc.set_step(7)
    acc.apply([1.0], 7)
    acc.apply([1.0], 8)
    for _ in range(3):
        acc.apply([1.0], 0)
    late.set_step(7)
    late.apply([1.0], 3)
    accs["polled"].set_step(7)
    waiting, behind, waiting_too = acc.start_take(5), acc.start_take(2), late.start_take(1)
    accs["untouched"].start_take(2)
    log = ""

    def lines_about(name: str) -> list[str]:
        nonlocal log
        log += capfd.readouterr().err
        kind = STALLS[name][0]  # Each kind of warning has intervals of its own.
        return [line for line in log.splitlines() if f"'{name}'" in line and kind in line]

    def is_warned_about(name: str) -> bool:
        if name == "retried":
            with pytest.raises(tf.errors.DeadlineExceededError):
                accs[name].take(1, options=v1.RunOptions(timeout_in_ms=10))
        if name == "polled":
            accs[name].apply([1.0], 3)
            assert not accs[name].try_take(2)[0]
        lines = lines_about(name)
        return len(lines) > 1 and any(all(text in line for text in STALLS[name]) for line in lines)

    for name in STALLS:
        until(functools.partial(is_warned_about, name), f"{name} is warned about", lambda: log)
        waits = [float(re.search(r"([\d.]+) s\b", line)[1]) for line in lines_about(name)]
        for earlier, later in itertools.pairwise(waits):
            assert later >= 2 * earlier - 0.1, "the text cuts off hundredths"
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
    line = lines_about("stalled_one")[0]
    assert re.search(r" W | W\d{4} |WARN|^W", line), "it is a warning"
    assert not any("default" in line for line in lines_about("late_gradient")), "step 3 is none"
