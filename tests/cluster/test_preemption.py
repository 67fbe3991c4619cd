"""Tasks that SIGTERM ends: they save and leave before, and the training goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import tf_condacc
from tests.support.forked_python import forked_python

PREEMPTIONS = Path(__file__).resolve().parents[1] / "support" / "cluster_preemptions.py"
TERMINATED = 143
ALONE = """
import logging, os, signal, sys, threading
import tensorflow as tf, tf_condacc
logging.basicConfig(level=logging.WARNING)
v1 = tf.compat.v1
def terminate(): os.kill(os.getpid(), signal.SIGTERM)
def wait_in_a_step(task, **arguments):
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        never = v1.FIFOQueue(1, [tf.int32], [[]]).dequeue()
        begin = v1.py_func(lambda: threading.Timer(0, terminate).start(), [], [])
        with tf.control_dependencies([begin]):
            train = tf.identity(never)
        with task.session(**arguments) as session:
            session.run(train)
"""


def run(code: str) -> tuple[int, str]:
    """Runs a program that trains alone; returns its exit status and what it has written."""
    done = subprocess.run(
        [*forked_python(), "-c", ALONE + code], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_training_survives_the_preemption_of_each_task(tmp_path):
    done = subprocess.run(
        [*forked_python(), str(PREEMPTIONS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr[-6000:]
    names = [each.get("preempted") for each in reports[:-1]]
    assert names == ["worker", "chief", "chief_that_waits", "all_together"]


def test_a_chief_without_a_folder_says_that_nothing_is_saved():
    status, output = run("with tf_condacc.cluster.start() as task: wait_in_a_step(task)")
    assert status == TERMINATED
    assert "SIGTERM: no checkpoint is saved, because there is no checkpoint_dir." in output


def test_a_task_without_a_session_ends_at_once():
    status, output = run(
        "with tf_condacc.cluster.start() as task:\n    terminate()\n    threading.Event().wait()"
    )
    assert status == TERMINATED
    assert "SIGTERM: there is no session, so nothing is saved." in output


def test_the_signal_keeps_its_default_action_if_asked_for():
    status, _ = run(
        "with tf_condacc.cluster.start(preemption_secs=None) as task: wait_in_a_step(task)"
    )
    assert status == -signal.SIGTERM


def test_a_task_that_cannot_leave_ends_after_the_limit():
    status, output = run(
        "from tf_condacc.cluster._preemption import SigtermHandler\n"
        "SigtermHandler(threading.Event().wait, 0.5).start()\n"
        "terminate()\nthreading.Event().wait()"
    )
    assert status == TERMINATED
    assert "SIGTERM: the process ends after 0.5 s." in output


@pytest.mark.parametrize("when", ["before", "later"])
def test_a_handler_of_the_program_takes_precedence(when):
    install = "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
    status, output = run(
        (install if when == "before" else "")
        + "with tf_condacc.cluster.start() as task:\n    "
        + (install if when == "later" else "pass\n")
        + "    terminate()\n    threading.Event().wait()"
    )
    assert status == 7 and "SIGTERM" not in output


def test_a_signal_to_a_fork_is_none_of_the_task():
    status, output = run(
        "with tf_condacc.cluster.start() as task:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        signal.alarm(30)  # It would outlive a task that has failed.\n"
        "        while True: signal.pause()\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    print('child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print('goes on')"
    )
    assert (status, output) == (0, f"child {-signal.SIGTERM}\ngoes on\n")


def test_what_was_before_is_restored():
    source, target = os.pipe2(os.O_NONBLOCK)
    before = signal.set_wakeup_fd(target)
    with tf_condacc.cluster.start({}):
        assert callable(signal.getsignal(signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.set_wakeup_fd(before) == target
    os.close(source)
    os.close(target)
