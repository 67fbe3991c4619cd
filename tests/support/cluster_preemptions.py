"""A cluster whose tasks are told to end by SIGTERM, and started again.

    python cluster_preemptions.py FOLDER

Prints a line of JSON for each preemption. Fails if a checkpoint is not that of the last step, the
others wait for a worker that has left, or the weights are not what the logs say.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import cluster_trainings as trainings  # noqa: E402
from tests.support.clusters import ForkedCluster  # noqa: E402
from tests.support.sync_replicas_log import check_rounds  # noqa: E402

CHIEF, LAST = ("worker", 0), ("worker", 2)
_REPLICAS = 3  # All workers are needed, and no slot is ever taken over.
_TERMINATED = 143
_LIMIT_SECS = 4  # The launcher gives tasks so much time.


class Preemptions:
    """The preemptions, each with what has to hold afterwards."""

    def __init__(self, cluster: ForkedCluster) -> None:
        self._cluster = cluster

    def worker(self) -> None:
        """A worker leaves, others go on without it, and it comes back."""
        self._cluster.terminate(LAST)
        assert self._cluster.await_end(_LIMIT_SECS, LAST) == {LAST: _TERMINATED}
        self._cluster.await_steps(10, 0, 1)
        self._restart(LAST)

    def chief(self) -> None:
        """The chief saves its last step, and the next one goes on from there."""
        with self._weights_are_kept():
            self._cluster.terminate(CHIEF)
            assert self._cluster.await_end(_LIMIT_SECS, CHIEF) == {CHIEF: _TERMINATED}
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
            assert self._cluster.await_end(_LIMIT_SECS, CHIEF) == {CHIEF: _TERMINATED}
            self._cluster.unfreeze(LAST)
            self._restart(CHIEF)

    def all_together(self) -> None:
        """The same when all tasks are told to end at once, the parameter server included."""
        with self._weights_are_kept():
            tasks = list(self._cluster.tasks())
            self._cluster.terminate(*tasks)
            statuses = self._cluster.await_end(_LIMIT_SECS, *tasks)
            assert set(statuses.values()) == {_TERMINATED}, statuses
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
        taken = check_rounds(events[last:new], _REPLICAS)
        for name, weight in events[new]["weights"].items():
            expected = events[last]["weights"][name] + taken[name] / _REPLICAS
            assert weight == expected, f"{name} is {weight} at step {saved}, not {expected}"


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    training = trainings.SyncTraining(Path(sys.argv[1]), num_ps=1, replicas=_REPLICAS)
    with training.cluster as cluster:
        preemptions = Preemptions(cluster)
        cluster.start()
        cluster.await_steps(20, 0, 1, 2)
        for each in ("worker", "chief", "chief_that_waits", "all_together"):
            start = time.monotonic()
            getattr(preemptions, each)()
            secs = round(time.monotonic() - start, 1)
            print(json.dumps({"preempted": each, "secs": secs}), flush=True)
        trainings.tell_all_to_leave(cluster)
        assert set(cluster.await_end(30).values()) == {0}, cluster.messages()[-4000:]
    print(json.dumps(training.check()), flush=True)


if __name__ == "__main__":
    main()
