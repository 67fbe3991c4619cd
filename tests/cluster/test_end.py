"""The end of training: parameter servers end last, and nobody takes their end for a fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tensorflow as tf

import tf_condacc
from condacc.liveness import Answer, probe
from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.sync_replicas_log import PushLog
from tests.support.times import set_cluster_times
from tests.support.waiting import PATIENCE_SECS, until
from tf_condacc.cluster import _ending

v1 = tf.compat.v1
_NUM_PS, _NUM_WORKERS, _STEPS = 2, 3, 10
_FAULT = re.compile(
    r"could not be notified|UNAVAILABLE|[Ff]ailed to connect|reset by peer|Broken pipe"
)


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
            cluster.await_that(lambda: self._have_all("begun"), "all workers train")
            before = cluster.messages_so_far()  # A server may start later than its clients.
            (cluster.folder / "go").touch()
            statuses = cluster.await_end()
            messages = cluster.messages(before)
            assert set(statuses.values()) == {0}, messages
            assert not _FAULT.search(messages), messages

    def _have_all(self, kind: str) -> bool:
        return len(self.cluster.events(kind)) == _NUM_WORKERS

    def _be(self, job: str, task_id: int, number: int) -> None:
        v1.logging.set_verbosity(v1.logging.ERROR)
        set_cluster_times()
        if self._stays:
            _ending.await_processes = self._await_reports
        with tf_condacc.cluster.start(grace_secs=PATIENCE_SECS) as task:
            self._train(task)
        PushLog(self.cluster.log_path).add("reported")
        for address in self.cluster.spec["ps"] if self._stays else []:
            until(
                lambda address=address: probe(address, PATIENCE_SECS) is not Answer.ANSWERED,
                "the parameter server has ended",
            )

    def _await_reports(self, addresses: list[str], timeout_secs: float) -> None:
        """Stands in for the time for which a parameter server answers other processes."""
        until(lambda: self._have_all("reported"), "all workers have reported their end")
        assert all(probe(address, timeout_secs) is Answer.ANSWERED for address in addresses)

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
                session.run(train)
                PushLog(self.cluster.log_path).add("begun")
                until((self.cluster.folder / "go").exists, "the test has seen that all train")
                while not session.should_stop():
                    session.run(train)


@pytest.mark.clusters
@isolated({"TF_CPP_MIN_LOG_LEVEL": "1"})
@pytest.mark.parametrize("runs", [2, pytest.param(50, marks=pytest.mark.long)])
def test_no_end_of_a_training_looks_like_a_fault(tmp_path, runs):
    for number in range(runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        ShortTraining(folder, stays=number % 2 == 0).run()
