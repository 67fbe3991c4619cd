"""Tests with processes that are frozen at each step of the protocol between workers and chief.

A process freezes itself right before it runs an operation of the gate or of an accumulator. While
it is frozen, so is each of the other processes for a moment, or another chief takes its place. Then
all go on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.clusters import Task
from tests.processes.isolated import isolated
from tests.support.waiting import timed, work
from tests.sync_replicas.clusters import processes

pytestmark = [isolated(alone=True), pytest.mark.clusters]
v1 = tf.compat.v1
CHIEF, WORKER = ("worker", 0), ("worker", 1)
# The operations of a step, and those that run only when a session begins.
IN_STEPS = {
    WORKER: ["Enter", "Claim", "Apply", "Pushed", "Finish"],
    CHIEF: ["AwaitFull", "TryTake", "RequireTaken", "Advance"],
}
AT_BEGIN = {WORKER: ["AwaitOpen"], CHIEF: ["Prepare", "AccumulatorReset", "GateOpen"]}
MOMENT_SECS = 0.15


def freeze_this_process() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class FreezeAtTheEnd(v1.train.SessionRunHook):
    """Freezes the process before the hook of the optimizer tells the gate of the end."""

    def end(self, session: Any) -> None:
        freeze_this_process()


class Cluster(processes.Cluster):
    """A cluster whose workers freeze themselves before operations that a test names.

    Attributes:
        ends: Whether the first chief ends after some steps, and freezes then.
    """

    ends = False

    def model(self, task: int, *args: Any, **arguments: Any) -> Any:
        model = super().model(task, *args, **arguments)
        who = ("worker", task)
        with model.graph.as_default(), v1.device(f"/job:worker/task:{task}"):
            for point in [*IN_STEPS.get(who, []), *AT_BEGIN.get(who, [])]:
                for op in model.graph.get_operations():
                    if op.type.startswith("Condacc>") and op.type.endswith(point):
                        self._may_freeze_before(op, self._order(who, point))
        return model

    def hooks(self, model: Any) -> list[Any]:
        ends = [v1.train.StopAtStepHook(num_steps=10), FreezeAtTheEnd()]
        return [*super().hooks(model), *(ends if self.ends and model.task == CHIEF[1] else [])]

    def _may_freeze_before(self, op: tf.Operation, order: Path) -> None:
        def freeze_if_told() -> None:
            with contextlib.suppress(FileNotFoundError):
                order.unlink()  # Another operation of the kind finds it no more.
                freeze_this_process()

        with tf.control_dependencies([*op.control_inputs, *(each.op for each in op.inputs)]):
            told = v1.py_func(freeze_if_told, [], [])
        op._add_control_input(told)

    def _order(self, who: Task, point: str) -> Path:
        return self.folder / f"freeze-{who[1]}-{point}"

    def tell_to_freeze(self, who: Task, point: str) -> None:
        """Makes a process freeze before its next operation of a kind."""
        self._order(who, point).touch()

    def freeze_before(self, who: Task, point: str) -> None:
        """Freezes a process before its next operation of a kind, and waits until it is frozen."""
        self.tell_to_freeze(who, point)
        if point in AT_BEGIN[who]:
            self.kill(who)
            self.start(who)
        self.await_frozen(who)


ALL = [(who, point) for kinds in (IN_STEPS, AT_BEGIN) for who in kinds for point in kinds[who]]
FEW = [(CHIEF, "Advance")]


@pytest.mark.parametrize("points", [FEW, pytest.param(ALL, marks=pytest.mark.long)], ids=len)
def test_training_goes_on_after_each_process_was_frozen_at_each_point(tmp_path, points):
    with Cluster(tmp_path, 2, takeover_secs=0.3) as cluster:
        cluster.start_all()
        cluster.await_steps(3, 0, 1, 2)
        for who, point in points:
            with timed(f"{who} before {point}"):
                cluster.freeze_before(who, point)
                for other in [other for other in cluster.running if other != who]:
                    cluster.freeze(other)
                    work(MOMENT_SECS)
                    cluster.unfreeze(other)
                cluster.unfreeze(who)
                cluster.await_steps(3, 0, 1, 2)
        counts = processes.check(cluster)
        print(counts)
        assert counts["take"] > 0


def test_the_others_take_over_the_slot_of_a_frozen_worker(tmp_path):
    """Each round needs a gradient of every worker. The frozen one has pushed a part of its own."""
    with Cluster(tmp_path, 3, takeover_secs=0.3) as cluster:
        cluster.start_all()
        cluster.await_steps(3, 0, 1, 2)
        cluster.freeze_before(WORKER, "Apply")
        cluster.await_steps(20, 0, 2)
        cluster.unfreeze(WORKER)
        cluster.await_steps(3, 0, 1, 2)
        assert processes.check(cluster)["takeovers"] > 0


@pytest.mark.parametrize("point", ["AccumulatorReset", "GateOpen", "the end"])
def test_a_chief_that_is_frozen_and_replaced_ends_alone(tmp_path, point):
    """The chief is frozen inside of its init operation, or before it tells the gate of the end."""
    with Cluster(tmp_path, 2, None, num_workers=2) as cluster:
        cluster.ends = point == "the end"
        cluster.tell_to_freeze(CHIEF, point)
        cluster.start_all()
        cluster.await_frozen(CHIEF)
        cluster.replace_frozen_chief()
        processes.check(cluster)
