"""Tests of chiefs that are frozen at some point, and replaced before they go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.sync_replicas.clusters import processes

pytestmark = [isolated(alone=True), pytest.mark.clusters]
v1 = tf.compat.v1
OLD = 0
STEPS_BEFORE_THE_END = 10


def freeze_this_process() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class FreezingAtTheEnd(v1.train.SessionRunHook):
    """Stops training after some steps, and freezes the process before the other hooks end."""

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results >= STEPS_BEFORE_THE_END:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        freeze_this_process()


class Cluster(processes.Cluster):
    """A worker, and a chief that is frozen.

    Args:
        folder: Folder of the log.
        point: Where the first chief is frozen: "prepared" or "reset" is inside of the init
            operation, after the gate was prepared or the accumulators were reset. "end" is before
            the hook of the optimizer tells the gate of the end.
    """

    def __init__(self, folder: Path, point: str) -> None:
        super().__init__(folder, 2, None, num_workers=2)
        self._point = point

    def model(self, task: int, *args: Any, **arguments: Any) -> Any:
        model = super().model(task, *args, **arguments)
        if task == OLD and self._point != "end":
            with model.graph.as_default(), v1.device(f"/job:worker/task:{OLD}"):
                self._freeze_in_init(model.graph)
        return model

    def hooks(self, model: Any) -> list[Any]:
        freezing = model.task == OLD and self._point == "end"
        return [*super().hooks(model), *([FreezingAtTheEnd()] if freezing else [])]

    def _freeze_in_init(self, graph: tf.Graph) -> None:
        kinds = {"prepared": ("SyncGatePrepare", "AccumulatorReset")}
        first, then = kinds.get(self._point, ("AccumulatorReset", "SyncGateOpen"))

        def all_of(kind: str) -> list[tf.Operation]:
            return [op for op in graph.get_operations() if op.type == f"Condacc>{kind}"]

        with tf.control_dependencies(all_of(first)):
            freeze = v1.py_func(freeze_this_process, [], [])
        for op in all_of(then):
            op._add_control_input(freeze)


@pytest.mark.parametrize("point", ["prepared", "reset", "end"])
def test_a_chief_that_is_frozen_and_replaced_ends_alone(tmp_path, point):
    """The chief is frozen inside of its init operation, or before its end."""
    with Cluster(tmp_path, point) as cluster:
        cluster.start_all()
        cluster.await_frozen(("worker", OLD))
        cluster.replace_frozen_chief()
        processes.check(cluster)
