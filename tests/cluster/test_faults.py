"""Real processes that are killed, frozen, late and started again, in training of each kind."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import trainings
from tests.cluster.trainings import TRAININGS
from tests.processes.clusters import ForkedCluster, Task
from tests.processes.isolated import isolated
from tests.support.sync_replicas_log import PushLog
from tests.support.waiting import timed, work

CHIEF, LAST = ("worker", 0), ("worker", 2)


class Faults:
    """The faults, each with what has to hold afterwards.

    Args:
        cluster: The cluster, on which training is under way.
        frozen_secs: How long processes are frozen at least. They are frozen until others have gone
            on or missed them.
    """

    def __init__(self, cluster: ForkedCluster, frozen_secs: float) -> None:
        self._cluster = cluster
        self._frozen_secs = frozen_secs

    def kill(self, who: Task) -> None:
        """Kills a process, and starts it again when others went on or missed it."""
        before = self._cluster.messages_so_far()
        with self.others_go_on_or_miss(who):
            self._cluster.kill(who)
        self._start_again(who)
        if who[0] == "ps":
            told = rf"Training goes on from step \d+ after the loss of ps {who[1]}\."
            assert re.search(told, self._cluster.messages(before))

    def kill_idle(self, who: Task) -> None:
        """Kills a worker between two steps; the others go on without it."""
        pauses = len(self._cluster.events("pause"))
        trainings.tell_to_pause(self._cluster, who[1])
        self._cluster.await_that(
            lambda: len(self._cluster.events("pause")) > pauses, f"{who} pauses"
        )
        self._cluster.kill(who)
        self._cluster.await_steps(10)
        self._start_again(who)

    def fail(self, who: Task) -> None:
        """Lets a worker's program fail between two steps; the others go on at once."""
        trainings.tell_to_fail(self._cluster, who[1])
        assert self._cluster.await_end(who) == {who: 1}
        self._cluster.await_steps(10)
        self._start_again(who)

    def freeze(self, who: Task) -> None:
        """Freezes a process until others have gone on or missed it, and for some time at least."""
        with self.others_go_on_or_miss(who):
            self._cluster.freeze(who)
        work(self._frozen_secs)
        self._cluster.unfreeze(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def leave(self, who: Task) -> None:
        """Lets a worker end, and another process take its place."""
        trainings.tell_to_leave(self._cluster, who[1])
        assert self._cluster.await_end(who) == {who: 0}
        self._cluster.await_steps(10)
        trainings.let_stay(self._cluster, who[1])
        self._start_again(who)

    def _start_again(self, who: Task) -> None:
        self._cluster.start(who)
        self._cluster.await_steps(5, 0, 1, 2)

    def end(self) -> None:
        """Lets the training end: every process ends by itself, and all parameter servers know."""
        trainings.tell_all_to_leave(self._cluster)
        self._check_end()

    def end_late(self) -> None:
        """Lets the training end while a worker is missing, and starts the worker afterwards."""
        self._cluster.kill(LAST)
        PushLog(self._cluster.log_path).add("left", task=LAST[1])
        trainings.tell_all_to_leave(self._cluster)
        assert self._cluster.await_end(CHIEF, ("worker", 1)) == {CHIEF: 0, ("worker", 1): 0}
        self._cluster.start(LAST)
        self._check_end()
        assert "worker 2 ends: training has ended." in self._cluster.messages()

    def _check_end(self) -> None:
        statuses = self._cluster.await_end()
        messages = self._cluster.messages()
        assert set(statuses.values()) == {0}, f"{statuses}\n{messages[-4000:]}"
        assert "the chief ended" not in messages  # The grace of a parameter server has run out.
        assert "could not be notified of the end" not in messages

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


@isolated()
@pytest.mark.parametrize("frozen_secs", [1, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    [
        name if name == "unfiltered" else pytest.param(name, marks=pytest.mark.clusters)
        for name in TRAININGS
    ],
)
def test_training_goes_on_and_nothing_counts_twice(tmp_path, name, frozen_secs):
    training = TRAININGS[name](tmp_path)
    with training.cluster as cluster:
        faults = Faults(cluster, frozen_secs)
        with faults.others_go_on_or_miss(LAST):
            cluster.start(*[who for who in cluster.tasks() if who != LAST])
        if name == "unfiltered":
            assert not cluster.events("step")
        cluster.start(LAST)
        cluster.await_steps(5, 0, 1, 2)
        for act, who in plan(name, faults):
            with timed(f"{act.__name__} {who}"):
                act(who)
        end = faults.end_late if name in ("backups", "drop_stale") else faults.end
        with timed(end.__name__):
            end()
        print(training.check())


def log_of(folder: Path, weights: dict[str, list[int]], accepted: bool = True) -> None:
    """Writes the log of a training with 30 gradients, the last of which may be dropped."""
    log = PushLog(str(folder / "log"))
    log.add("restored", weights={})
    for number in range(30):
        log.add("try", id=number)
        log.add("push", id=number, accepted=number < 29 or accepted)
    log.add("final", weights=weights)


@pytest.mark.parametrize(
    "applied, accepted",
    [(range(29), True), (range(30), False), (range(31), True)],
    ids=["a gradient is lost", "a dropped gradient was applied", "a gradient nobody made"],
)
def test_the_check_of_asynchronous_training_sees(tmp_path, applied, accepted):
    training = TRAININGS["drop_stale"](tmp_path)
    log_of(tmp_path, {"table_0": list(applied)}, accepted)
    with pytest.raises(AssertionError, match="gradient 29|were never made"):
        training.check()


def test_the_check_of_asynchronous_training_accepts_what_is_right(tmp_path):
    training = TRAININGS["drop_stale"](tmp_path)
    log_of(tmp_path, {"table_0": list(range(29))}, accepted=False)
    assert training.check()["openings"] == 1
