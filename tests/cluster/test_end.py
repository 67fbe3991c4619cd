"""The end of training: parameter servers end last, and nobody takes their end for a fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

import tf_condacc
from condacc.liveness import Answer, probe
from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.sync_replicas_log import PushLog

v1 = tf.compat.v1
_NUM_PS, _NUM_WORKERS, _STEPS = 2, 3, 10
_FAULT = re.compile(r"not told|UNAVAILABLE|[Ff]ailed to connect|reset by peer|Broken pipe")
_REPORT_LIMIT_SECS = 3


class ShortTraining:
    """A training in whose workers nothing is logged but errors.

    Args:
        folder: Where the processes write.
        stays: Whether the processes of workers go on until the parameter servers have ended.
    """

    def __init__(self, folder: Path, stays: bool) -> None:
        self.cluster = ForkedCluster(folder, _NUM_PS, _NUM_WORKERS, self._be)
        self._stays = stays

    def run(self) -> None:
        """Trains, and checks that nothing looks like a fault."""
        with self.cluster as cluster:
            cluster.start()
            statuses = cluster.await_end()
            messages = cluster.messages()
            assert set(statuses.values()) == {0}, messages
            assert not _FAULT.search(messages), messages
            assert all(event["secs"] < _REPORT_LIMIT_SECS for event in cluster.events("reported"))

    def _be(self, job: str, task_id: int, number: int) -> None:
        v1.logging.set_verbosity(v1.logging.ERROR)
        with tf_condacc.cluster.start() as task:
            self._train(task)
            start = time.monotonic()
        log = PushLog(self.cluster.log_path)
        log.add("reported", secs=time.monotonic() - start)
        for address in self.cluster.spec["ps"] if self._stays else []:
            while probe(address, 1) is Answer.ANSWERED:
                time.sleep(0.05)

    def _train(self, task: tf_condacc.cluster.Task) -> None:
        with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
            step = v1.train.get_or_create_global_step()
            weights = [v1.get_variable(name, initializer=5.0) for name in "ab"]
            optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(0.1), task.num_worker_replicas
            )
            train = optimizer.minimize(tf.add_n([tf.square(each) for each in weights]), step)
            hooks = [
                optimizer.make_session_run_hook(task.is_chief),
                v1.train.StopAtStepHook(last_step=_STEPS),
            ]
            with task.session(hooks=hooks) as session:
                while not session.should_stop():
                    session.run(train)


@isolated({"TF_CPP_MIN_LOG_LEVEL": "1"})
@pytest.mark.parametrize("runs", [2, pytest.param(50, marks=pytest.mark.long)])
def test_no_end_of_a_training_looks_like_a_fault(tmp_path, runs):
    for number in range(runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        ShortTraining(folder, stays=number % 2 == 0).run()


_FAILING_ONCE = """
import os, time
import numpy as np, tensorflow as tf, tf_condacc
v1 = tf.compat.v1
v1.disable_v2_behavior()
with tf_condacc.cluster.start() as task:
    with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
        fails = task.is_chief and not os.path.exists("failed")
        reads = [0]
        def read():
            reads[0] += 1
            if fails and reads[0] == 10:
                open("failed", "w").close()
                raise ValueError("broken record")
            return np.float32(1.0)
        with v1.device(f"/job:{task.task_type}/task:{task.task_id}/cpu:0"):
            queue = v1.FIFOQueue(2, [tf.float32], [[]], name=f"input_{task.task_id}")
            enqueue = queue.enqueue(v1.py_func(read, [], tf.float32))
            v1.train.add_queue_runner(v1.train.QueueRunner(queue, [enqueue]))
            value = queue.dequeue()
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("w", initializer=np.float32(0))
        workers = task.num_worker_replicas
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(-1.0), workers)
        train = optimizer.apply_gradients([(value, weight)], step)
        hooks = [optimizer.make_session_run_hook(task.is_chief),
                 v1.train.StopAtStepHook(last_step=40)]
        with task.session(hooks=hooks, checkpoint_dir="checkpoints") as session:
            while not session.should_stop():
                session.run(train)
                time.sleep(0.05 * task.is_chief)
    print("clean end")
"""


@pytest.mark.long
def test_a_chief_whose_input_fails_is_restarted_and_ends_the_training(tmp_path):
    command = ["--ps", "1", "--workers", "2", "--restarts", "2", "--"]
    search = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "condacc", "launch", *command, sys.executable, "-c", _FAILING_ONCE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=170,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "worker 0 is lost: status 1. Restart 1 of 2" in output
    assert output.count("clean end") == 2, output
    assert tf.train.latest_checkpoint(tmp_path / "checkpoints").endswith("-40")
