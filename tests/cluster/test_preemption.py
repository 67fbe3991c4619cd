"""Tasks that SIGTERM ends: they save and leave before, and the training goes on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest

import tf_condacc
from tests.cluster import trainings
from tests.processes.clusters import ForkedCluster
from tests.processes.forked_python import forked_python
from tests.processes.isolated import isolated
from tests.support.ports import free_cluster
from tests.support.sync_replicas_log import check_rounds
from tests.support.waiting import run_program

CHIEF, LAST = ("worker", 0), ("worker", 2)
REPLICAS = 3  # All workers are needed, and no slot is ever taken over.
TERMINATED = 143


class Preemptions:
    """The preemptions, each with what has to hold afterwards.

    Args:
        cluster: The cluster, on which training is under way.
    """

    def __init__(self, cluster: ForkedCluster) -> None:
        self._cluster = cluster

    def worker(self) -> None:
        """A worker leaves, others go on without it, and it comes back."""
        self._cluster.terminate(LAST)
        assert self._cluster.await_end(LAST) == {LAST: TERMINATED}
        self._cluster.await_steps(10, 0, 1)
        self._restart(LAST)

    def chief(self) -> None:
        """The chief saves its last step, and the next one goes on from there."""
        with self._weights_are_kept():
            self._cluster.terminate(CHIEF)
            assert self._cluster.await_end(CHIEF) == {CHIEF: TERMINATED}
            self._restart(CHIEF)

    def chief_that_waits(self) -> None:
        """The same while the chief's step waits for another worker without end."""
        with self._weights_are_kept():
            before = self._cluster.messages_so_far()
            self._cluster.freeze(LAST)
            self._cluster.await_that(
                lambda: "worker/task:2" in self._cluster.messages(before), "a report of the gate"
            )
            self._cluster.terminate(CHIEF)
            assert self._cluster.await_end(CHIEF) == {CHIEF: TERMINATED}
            self._cluster.unfreeze(LAST)
            self._restart(CHIEF)

    def all_together(self) -> None:
        """The same when all tasks are told to end at once, the parameter server included."""
        with self._weights_are_kept():
            tasks = list(self._cluster.tasks())
            self._cluster.terminate(*tasks)
            statuses = self._cluster.await_end(*tasks)
            assert set(statuses.values()) == {TERMINATED}, statuses
            self._restart(*tasks)

    def _restart(self, *tasks: tuple[str, int]) -> None:
        self._cluster.start(*tasks)
        self._cluster.await_steps(5, 0, 1, 2)

    @contextlib.contextmanager
    def _weights_are_kept(self) -> Iterator[None]:
        """Checks that a new chief begins with all that the last one has applied."""
        before = self._cluster.messages_so_far()
        yield
        (saved,) = re.findall(r"the checkpoint of step (\d+) is in", self._cluster.messages(before))
        events = self._cluster.all_events()
        *_, last, new = [i for i, event in enumerate(events) if event["kind"] == "restored"]
        taken = check_rounds(events[last:new], REPLICAS)
        for name, weight in events[new]["weights"].items():
            expected = events[last]["weights"][name] + taken[name] / REPLICAS
            assert weight == expected, f"{name} is {weight} at step {saved}, not {expected}"


def survive(training: trainings.Training, *preemptions: Callable[[Preemptions], None]) -> None:
    with training.cluster as cluster:
        cluster.start()
        cluster.await_steps(20, 0, 1, 2)
        for preempt in preemptions:
            preempt(Preemptions(cluster))
        trainings.tell_all_to_leave(cluster)
        assert set(cluster.await_end().values()) == {0}, cluster.messages()[-4000:]
        assert "the process ends after" not in cluster.messages()
    training.check()


@isolated()
@pytest.mark.clusters
def test_a_training_survives_the_preemption_of_tasks_whose_steps_end(tmp_path):
    training = trainings.SyncTraining(tmp_path, num_ps=1, replicas=REPLICAS)
    survive(training, Preemptions.worker, Preemptions.chief)


@isolated()
@pytest.mark.clusters
def test_a_training_survives_the_preemption_of_a_chief_that_waits_for_another_task(tmp_path):
    training = trainings.SyncTraining(tmp_path, 1, REPLICAS, preempted_step_secs=3)
    survive(training, Preemptions.chief_that_waits)


class PreemptedTogether(trainings.SyncTraining):
    """A training whose workers do not wait for a chief that has left already."""

    def _be(self, job: str, task_id: int, number: int) -> None:
        if task_id != 0:
            self._times = {"preempted_step_secs": 0.5}
        super()._be(job, task_id, number)


@isolated()
@pytest.mark.clusters
def test_a_training_survives_the_preemption_of_all_tasks_at_once(tmp_path):
    survive(PreemptedTogether(tmp_path, 1, REPLICAS), Preemptions.all_together)


ALONE = """
import functools, logging, os, signal, sys, threading
import tensorflow as tf, tf_condacc
logging.basicConfig(level=logging.WARNING)
v1 = tf.compat.v1
start = functools.partial(tf_condacc.cluster.start, preemption_secs=600)
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
    done = run_program([*forked_python(), "-c", ALONE + code])
    return done.returncode, done.stdout + done.stderr


def test_a_chief_without_a_folder_says_that_nothing_is_saved():
    status, output = run("with start() as task: wait_in_a_step(task)")
    assert status == TERMINATED
    assert "SIGTERM: no checkpoint is saved, because there is no checkpoint_dir." in output


def test_a_task_without_a_session_ends_at_once():
    status, output = run("with start() as task:\n    terminate()\n    threading.Event().wait()")
    assert status == TERMINATED
    assert "SIGTERM: there is no session, so nothing is saved." in output


def test_the_signal_keeps_its_default_action_if_asked_for():
    status, _ = run("with start(preemption_secs=None) as task: wait_in_a_step(task)")
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
        + "with start() as task:\n    "
        + (install if when == "later" else "pass\n")
        + "    terminate()\n    threading.Event().wait()"
    )
    assert status == 7 and "SIGTERM" not in output


def test_a_signal_to_a_fork_is_none_of_the_task():
    status, output = run(
        "import warnings\n"
        "warnings.simplefilter('ignore')  # Python 3.12 warns of forks.\n"
        "with start() as task:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        signal.alarm(600)  # It would outlive a task that has failed.\n"
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


def interrupted(code: str) -> tuple[int, str]:
    """Runs a program that is interrupted in a cluster without its parameter server."""
    config = {"cluster": free_cluster(1, 1), "task": {"type": "worker", "index": 0}}
    return run(
        f"def interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n    threading.Event().wait()\n"
        f"with start({config}) as task:\n    {code}"
    )


def test_an_interrupted_task_prints_one_line():
    status, output = interrupted("interrupt()")
    assert status == -signal.SIGINT
    assert "Traceback" not in output and output.count("KeyboardInterrupt") == 1


def test_an_interrupted_task_does_not_miss_the_parameter_server():
    status, output = interrupted(
        "try: interrupt()\n    except KeyboardInterrupt: terminate(); threading.Event().wait()"
    )
    assert status == TERMINATED
    assert "SIGTERM after Ctrl-C: this task ends." in output and "does not answer" not in output
