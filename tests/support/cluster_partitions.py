"""A cluster on two hosts, between which the network is lost for a while.

    python cluster_partitions.py FOLDER

Prints a line of JSON for each partition: how many seconds after its end training went on. Prints
the reason why hosts cannot be made, if so. Fails if the weights are not what the logs say.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import cluster_trainings as trainings  # noqa: E402
from tests.support.separate_hosts import ADDRESSES, SeparateHosts  # noqa: E402

# The host of each task: one parameter server on each, and the chief without the other workers.
_HOSTS = {"ps": [0, 1], "worker": [0, 1, 1]}
_PARTITIONS = [("10 s", 10, (0, 1)), ("60 s", 60, (0, 1)), ("60 s, one way", 60, (1,))]
_LIMIT_SECS = 120


class TrainingOnTwoHosts(trainings.SyncTraining):
    """Synchronous training that needs all three workers, on two hosts.

    Args:
        folder: Where the processes write.
        hosts: The hosts.
    """

    def __init__(self, folder: Path, hosts: SeparateHosts) -> None:
        super().__init__(folder, num_ps=2, replicas=3)
        self._hosts = hosts
        ports = iter(range(32_000, 33_000))
        self.cluster.spec = {
            job: [f"{ADDRESSES[host]}:{next(ports)}" for host in of_tasks]
            for job, of_tasks in _HOSTS.items()
        }

    def _be(self, job: str, task_id: int, number: int) -> None:
        self._hosts.enter(_HOSTS[job][task_id])
        super()._be(job, task_id, number)


def run(folder: Path, hosts: SeparateHosts) -> None:
    training = TrainingOnTwoHosts(folder, hosts)
    with training.cluster as cluster:
        cluster.start()
        cluster.await_steps(20, 0, 1, 2)
        for name, secs, lost in _PARTITIONS:
            with hosts.partition(*lost):
                time.sleep(secs)
            healed = time.time()
            print(json.dumps({"partition": name, "secs": _secs_to_next_step(cluster, healed)}))
            sys.stdout.flush()
            cluster.await_steps(20, 0, 1, 2)
        trainings.tell_all_to_leave(cluster)
        assert set(cluster.await_end(30).values()) == {0}, cluster.messages()[-4000:]
    print(json.dumps(training.check()), flush=True)


def _secs_to_next_step(cluster: trainings.ForkedCluster, since: float) -> float:
    def later() -> list[float]:
        return [event["time"] for event in cluster.events("step") if event["time"] > since]

    cluster.await_that(lambda: bool(later()), "a step after the partition", _LIMIT_SECS)
    return round(min(later()) - since, 1)


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    try:
        with SeparateHosts() as hosts:
            run(Path(sys.argv[1]), hosts)
    except OSError as error:
        print(json.dumps({"reason": str(error)}))
    except subprocess.CalledProcessError as error:
        print(json.dumps({"reason": error.stderr}))


if __name__ == "__main__":
    main()
