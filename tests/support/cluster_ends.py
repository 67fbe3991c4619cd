"""Ends of short trainings on clusters of two parameter servers and three workers.

    python cluster_ends.py FOLDER RUNS

Prints a line of JSON for each training: the statuses of its processes, what they have written to
their standard error, and the longest time in seconds that a worker took to report its end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tensorflow as tf  # noqa: E402

import tf_condacc  # noqa: E402
from condacc.launch._probe import Answer, probe  # noqa: E402
from tests.support.clusters import ForkedCluster  # noqa: E402
from tests.support.sync_replicas_log import PushLog  # noqa: E402

v1 = tf.compat.v1
_NUM_PS, _NUM_WORKERS, _STEPS = 2, 3, 10


class ShortTraining:
    """A training in whose workers nothing is logged but errors.

    Args:
        folder: Where the processes write.
        stays: Whether the processes of workers go on until the parameter servers have ended.
    """

    def __init__(self, folder: Path, stays: bool) -> None:
        self.cluster = ForkedCluster(folder, _NUM_PS, _NUM_WORKERS, self._be)
        self._stays = stays

    def run(self) -> dict:
        with self.cluster as cluster:
            cluster.start()
            statuses = cluster.await_end(60)
            return {
                "statuses": sorted(set(statuses.values())),
                "messages": cluster.messages(),
                "report_secs": max(event["secs"] for event in cluster.events("reported")),
            }

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


def main() -> None:
    folder, runs = Path(sys.argv[1]), int(sys.argv[2])
    for number in range(runs):
        (folder / str(number)).mkdir()
        report = ShortTraining(folder / str(number), stays=number % 2 == 0).run()
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
