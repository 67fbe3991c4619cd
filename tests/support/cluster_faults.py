"""Clusters whose processes are killed, frozen and started again, one after the other.

    python cluster_faults.py FOLDER FROZEN_SECS TRAINING...

Prints a line of JSON for each fault: its name, and how long it took until training went on. Fails
if training did not go on, nobody said what was missing, or the weights are not what the logs say.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import cluster_trainings as trainings  # noqa: E402
from tests.support.clusters import ForkedCluster, Task  # noqa: E402

CHIEF, LAST = ("worker", 0), ("worker", 2)
_END_SECS = 2  # It took 0.3 to 0.5 on a machine with two busy cores.


class Faults:
    """The faults, each with what has to hold afterwards.

    Args:
        cluster: The cluster, on which training is under way.
        frozen_secs: How long processes are frozen.
    """

    def __init__(self, cluster: ForkedCluster, frozen_secs: float) -> None:
        self._cluster = cluster
        self._frozen_secs = frozen_secs

    def kill(self, who: Task) -> None:
        """Kills a process, and starts it again when others went on or missed it."""
        with self.others_go_on_or_miss(who):
            self._cluster.kill(who)
        self._cluster.start(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def kill_idle(self, who: Task) -> None:
        """Kills a worker between two steps; the others go on without it."""
        pauses = len(self._cluster.events("pause"))
        trainings.tell_to_pause(self._cluster, who[1])
        self._cluster.await_that(
            lambda: len(self._cluster.events("pause")) > pauses, f"{who} pauses"
        )
        self._cluster.kill(who)
        self._cluster.await_steps(10)
        self._cluster.start(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def fail(self, who: Task) -> None:
        """Lets a worker's program fail between two steps; the others go on at once."""
        trainings.tell_to_fail(self._cluster, who[1])
        assert self._cluster.await_end(20, who) == {who: 1}
        self._cluster.await_steps(10)
        self._cluster.start(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def freeze(self, who: Task) -> None:
        """Freezes a process for some seconds, in which others go on or miss it."""
        end = time.monotonic() + self._frozen_secs
        with self.others_go_on_or_miss(who):
            self._cluster.freeze(who)
        time.sleep(max(0, end - time.monotonic()))
        self._cluster.unfreeze(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def leave(self, who: Task) -> None:
        """Lets a worker end, and another process take its place."""
        trainings.tell_to_leave(self._cluster, who[1])
        assert self._cluster.await_end(20, who) == {who: 0}
        self._cluster.await_steps(10)
        trainings.let_stay(self._cluster, who[1])
        self._cluster.start(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def end(self) -> float:
        """Lets the training end: every process ends by itself, and soon. Returns the seconds."""
        trainings.tell_all_to_leave(self._cluster)
        statuses = self._cluster.await_end(30)
        assert set(statuses.values()) == {0}, f"{statuses}\n{self._cluster.messages()[-4000:]}"
        last_step = max(event["time"] for event in self._cluster.events("step"))
        took = time.time() - last_step
        assert took < _END_SECS, f"ended {took:.1f} s after the last step"
        return took

    def end_late(self) -> float:
        """Lets the training end while a worker is missing, and starts the worker afterwards.

        Returns the seconds from its start to the end of all processes.
        """
        self._cluster.kill(LAST)
        trainings.tell_all_to_leave(self._cluster)
        assert self._cluster.await_end(30, CHIEF, ("worker", 1)) == {CHIEF: 0, ("worker", 1): 0}
        self._cluster.start(LAST)
        start = time.monotonic()
        statuses = self._cluster.await_end(30)
        assert set(statuses.values()) == {0}, f"{statuses}\n{self._cluster.messages()[-4000:]}"
        return time.monotonic() - start

    @contextlib.contextmanager
    def others_go_on_or_miss(self, who: Task) -> Iterator[None]:
        """Waits until training has gone on without a process, or a message has named it."""
        job, task = who
        before = self._cluster.messages_so_far()
        yield
        steps = len(self._cluster.events("step"))

        def hold() -> bool:
            new = self._cluster.messages(before)
            names = f"{job} {task}", f"{job}/task:{task}", "never seen: 1 of 3 workers"
            went_on = len(self._cluster.events("step")) >= steps + 10
            return went_on or any(name in new for name in names)

        self._cluster.await_that(hold, f"steps without {job} {task}, or a message about it")


Plan = list[tuple[Callable[..., None], Task]]


def plan(name: str, faults: Faults) -> Plan:
    """Returns what is done to the cluster of a training."""
    kill, freeze, leave = faults.kill, faults.freeze, faults.leave
    if name == "unfiltered":
        return [(kill, LAST)]
    if name == "all_needed":
        of_last: Plan = [(kill, LAST), (faults.kill_idle, LAST), (faults.fail, LAST)]
        return [*of_last, (freeze, LAST), (kill, CHIEF), (freeze, CHIEF), (kill, ("ps", 0))]
    of_workers: Plan = [(act, LAST) for act in (kill, freeze, leave)]
    others = [CHIEF, ("ps", 0), ("ps", 1)]
    return of_workers + [(act, who) for who in others for act in (kill, freeze)]


def run_plan(name: str, folder: Path, frozen_secs: float) -> None:
    """Does to a cluster what its plan says, and checks the weights."""
    training = trainings.TRAININGS[name](folder)
    with training.cluster as cluster:
        faults = Faults(cluster, frozen_secs)
        with faults.others_go_on_or_miss(LAST):
            cluster.start(*[who for who in cluster.tasks() if who != LAST])
        if name == "unfiltered":
            assert not cluster.events("step")
        cluster.start(LAST)
        cluster.await_steps(5, 0, 1, 2)
        report(plan=name, fault="late worker 2")
        for act, who in plan(name, faults):
            start = time.monotonic()
            act(who)
            secs = round(time.monotonic() - start, 1)
            report(plan=name, fault=f"{act.__name__} {who[0]} {who[1]}", secs=secs)
        end = faults.end_late if name in ("backups", "drop_stale") else faults.end
        secs = round(end(), 1)
        report(plan=name, fault=end.__name__, secs=secs, **training.check())


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    folder, frozen_secs, names = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    logging.basicConfig(level=logging.WARNING)
    failed = 0
    for name in names:
        (folder / name).mkdir()
        process = os.fork()  # Its own sessions must not be there when the next one forks.
        if process == 0:
            try:
                run_plan(name, folder / name, frozen_secs)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        failed += os.waitpid(process, 0)[1] != 0
    sys.stdout.flush()
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
