"""Trials of sessions and processes that end while takes wait, of Ctrl-C, and of warnings."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import tensorflow as tf

from tests.support.accumulator_support import Background, GraphDriver, unique_name
from tests.support.trial_runs import Trials

v1 = tf.compat.v1
TRIALS = Trials()


@TRIALS.add
def four_hundred_waiting_takes_then_close(impl: Any) -> None:
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


@TRIALS.add
def twenty_times_close_with_a_waiting_take(impl: Any) -> None:
    for _ in range(20):
        acc = GraphDriver(impl)
        waiting = acc.start_take(1)
        acc.close()
        assert isinstance(waiting.error(), tf.errors.CancelledError)


@TRIALS.add
def session_is_dropped_after_a_cancelled_take(impl: Any) -> None:
    for _ in range(20):
        acc = GraphDriver(impl)
        waiting = acc.start_take(1)
        acc.close()
        waiting.error()
        del acc, waiting


@TRIALS.add
def process_exits_with_waiting_takes(impl: Any) -> None:
    """Leaves takes waiting; the exit status of the process is the outcome."""
    acc = GraphDriver(impl)
    acc.start_take(1)
    eager = impl.dense(tf.float32, [], shared_name=unique_name("left"))
    Background(lambda: eager.take_grad(1)).wait_until_blocked()
    Background(tf.function(lambda: eager.take_grad(2))).wait_until_blocked()
    globals()["left_behind"] = (acc, eager)


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


@TRIALS.add
def ctrl_c_ends_an_eager_take(impl: Any) -> None:
    acc = impl.dense(tf.float32, [])
    acc.apply_grad(2.0)
    interrupt_main_thread_once_blocked()
    try:
        acc.take_grad(2)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("the take returned")
    assert int(acc.num_accumulated()) == 1, "an interrupted take takes nothing"
    acc.apply_grad(4.0)
    assert acc.take_grad(2).numpy() == 3.0, "no interrupted take may be left in the queue"


@TRIALS.add
def lower_step_is_warned_about(impl: Any) -> None:
    acc = GraphDriver(impl, name="lowered")
    acc.set_step(6)
    acc.set_step(6)
    acc.set_step(7)
    acc.set_step(2)
    acc.apply([1.0], 2)
    assert acc.count() == 1


@TRIALS.add
def stalled_take_is_warned_about(impl: Any) -> None:
    acc = GraphDriver(impl, name="stalled_one")
    acc.set_step(7)
    acc.apply([1.0], 7)
    acc.apply([1.0], 8)
    for _ in range(3):
        acc.apply([1.0], 0)
    late = GraphDriver(impl, name="late_gradient")
    late.set_step(7)
    late.apply([1.0], 3)
    waiting, waiting_too = acc.start_take(5), late.start_take(1)
    time.sleep(3.5)  # The take waits several times the limit, so that a second warning would show.
    for _ in range(3):
        acc.apply([1.0], 7)
    assert waiting.result() == [1.0]
    late.apply([1.0], 7)
    assert waiting_too.result() == [1.0]


@TRIALS.add
def take_that_ends_in_time_is_not_warned_about(impl: Any) -> None:
    """Must run before the trial of the stalled take, during which a wrong warning would come."""
    acc = GraphDriver(impl, name="quick_one")
    waiting = acc.start_take(1)
    acc.apply([1.0])
    waiting.result()
