"""Trainings whose weights tell which gradients were applied, for clusters of forked processes."""

from __future__ import annotations

import abc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.processes.clusters import ForkedCluster
from tests.support.drop_stale_atomic_support import last_decision
from tests.support.sync_replicas_log import PushLog, check_rounds, check_weights, read_log
from tests.support.sync_replicas_program import NumberedModel, Restored
from tests.support.times import set_cluster_times
from tests.support.waiting import PATIENCE_SECS, until, work

v1 = tf.compat.v1
_CHECKPOINT_STEPS = 20
_IDS_OF_A_PROCESS = 10_000
_MAX_PROCESSES = 20


def tell_to_leave(cluster: ForkedCluster, worker: int) -> None:
    (cluster.folder / f"leave-{worker}").touch()


def let_stay(cluster: ForkedCluster, worker: int) -> None:
    (cluster.folder / f"leave-{worker}").unlink()


def tell_to_pause(cluster: ForkedCluster, worker: int) -> None:
    """Makes a worker stop between two steps, until it is killed or started again."""
    (cluster.folder / f"pause-{worker}").touch()


def tell_to_fail(cluster: ForkedCluster, worker: int) -> None:
    """Makes a worker's program raise an error between two steps, once."""
    (cluster.folder / f"fail-{worker}").touch()


def tell_all_to_leave(cluster: ForkedCluster) -> None:
    (cluster.folder / "leave").touch()


class LeaveWhenTold(v1.train.SessionRunHook):
    """Ends the training of a worker when a file appears."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if any(path.exists() for path in self._paths):
            run_context.request_stop()


class Training(abc.ABC):
    """A training on a cluster of its own.

    Args:
        folder: Where the processes write.
        num_ps: Number of parameter servers.
        session_config: Configuration of servers and sessions; None for the default one.
        **times: Times of the tasks that are not the patient ones.
    """

    def __init__(
        self, folder: Path, num_ps: int, session_config: Any = None, **times: float
    ) -> None:
        self.cluster = ForkedCluster(folder, num_ps, 3, self._be)
        self._session_config = session_config
        self._times = times

    def check(self) -> dict[str, int]:
        """Checks the weights against the logs."""
        events = read_log(self.cluster.log_path)
        (final,) = [event for event in events if event["kind"] == "final"]
        openings = [i for i, event in enumerate(events) if event["kind"] == "restored"]
        self._check(events, openings, final["weights"])
        return {"openings": len(openings), "steps": len(self.cluster.events("step"))}

    @abc.abstractmethod
    def _check(self, events: list[dict], openings: list[int], weights: dict[str, Any]) -> None:
        """Checks the weights of each variable against the events."""

    @abc.abstractmethod
    def _train(self, task: tf_condacc.cluster.Task, log: PushLog, number: int) -> None:
        """Trains in a worker; `number` is different in each process."""

    def _be(self, job: str, task_id: int, number: int) -> None:
        set_cluster_times(**self._times)
        with tf_condacc.cluster.start(
            session_config=self._session_config,
            report_secs=1,
            grace_secs=PATIENCE_SECS,
            preemption_secs=PATIENCE_SECS,
        ) as task:
            self._train(task, PushLog(self.cluster.log_path), number)

    def _loop(
        self,
        task: Any,
        log: PushLog,
        hooks: list[Any],
        run: Callable[[Any], int],
        read: Callable[[Any], Any],
    ) -> None:
        """Trains in the default graph. A chief logs the weights that `read` returns."""
        if task.is_chief:
            hooks = [Restored(log, lambda session: {"weights": read(session)}), *hooks]
        log.add("enter", task=task.task_id)
        folder = self.cluster.folder
        leaves = [folder / f"leave-{task.task_id}"]
        # A chief ends the others. Without a gate, each one has to notice the end by itself.
        if task.is_chief or not isinstance(self, SyncTraining):
            leaves.append(folder / "leave")
        with task.session(
            hooks=[*hooks, LeaveWhenTold(*leaves)],
            checkpoint_dir=str(folder) if task.is_chief else None,
            save_checkpoint_secs=None,
            save_checkpoint_steps=_CHECKPOINT_STEPS,
            save_summaries_steps=None,
            log_step_count_steps=None,
            stop_grace_period_secs=PATIENCE_SECS,
        ) as session:
            while not session.should_stop():
                self._obey(task, log)
                step = run(session)
                log.add("step", task=task.task_id, step=step)
        log.add("left", task=task.task_id)
        if task.is_chief:
            until(self._all_have_left, "no update is under way")
            # The servers of other workers may have ended.
            needed = ["/job:ps", f"/job:worker/task:{task.task_id}"]
            config = v1.ConfigProto(device_filters=needed)
            with v1.Session(task.master, config=config) as session:
                log.add("final", weights=read(session))

    def _all_have_left(self) -> bool:
        """Returns whether no worker trains."""
        events = read_log(self.cluster.log_path)
        last = {each["task"]: each["kind"] for each in events if each["kind"] in ("enter", "left")}
        return "enter" not in last.values()

    def _obey(self, task: Any, log: PushLog) -> None:
        """Pauses or fails if the test has told this worker to."""
        if (self.cluster.folder / f"fail-{task.task_id}").exists():
            (self.cluster.folder / f"fail-{task.task_id}").unlink()
            raise RuntimeError("bad record in this worker's file")
        pause = self.cluster.folder / f"pause-{task.task_id}"
        if pause.exists():
            pause.unlink()
            log.add("pause", task=task.task_id)
            signal.pause()


class SyncTraining(Training):
    """Synchronous training with three workers.

    Args:
        folder: Where the processes write.
        num_ps: Number of parameter servers.
        replicas: Number of gradients in a round.
        **times: Times of the tasks that are not the patient ones.
    """

    def __init__(self, folder: Path, num_ps: int, replicas: int, **times: float) -> None:
        super().__init__(folder, num_ps, **times)
        self._replicas = replicas

    def _train(self, task: Any, log: PushLog, number: int) -> None:
        model = NumberedModel(
            task.task_id,
            self._replicas,
            task.num_worker_replicas,
            log,
            variables=("w", "b", "c"),
            device=task.replica_device_setter(),
            sleep=lambda: work(0.006 * (task.task_id + 1)),
            configure={"report_secs": 1},
            first=number * 10**4,
        )
        with model.graph.as_default():
            self._loop(task, log, [model.hook()], model.run, model.weights)

    def _check(self, events: list[dict], openings: list[int], weights: dict[str, Any]) -> None:
        for start, end in zip(openings, [*openings[1:], len(events)], strict=True):
            check_rounds(events[start:end], self._replicas)
        last = openings[-1]
        check_weights(events[last + 1 :], self._replicas, weights, events[last]["weights"])


class DropStaleTraining(Training):
    """Asynchronous training with three workers. Each gradient adds one at an index of its own."""

    def __init__(self, folder: Path, num_ps: int, session_config: Any = None) -> None:
        super().__init__(folder, num_ps, session_config)
        self._tables = [f"table_{i}" for i in range(num_ps)]

    def _train(self, task: Any, log: PushLog, number: int) -> None:
        ids = iter(range(number * _IDS_OF_A_PROCESS, (number + 1) * _IDS_OF_A_PROCESS))

        def next_id() -> np.int64:
            work(0.008 * (task.task_id + 1))
            value = next(ids)
            log.add("try", id=value)
            return np.int64(value)

        with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
            step = v1.train.get_or_create_global_step()
            tables = [
                v1.get_variable(
                    name,
                    [_MAX_PROCESSES * _IDS_OF_A_PROCESS],
                    initializer=v1.zeros_initializer(),
                    use_resource=True,
                )
                for name in self._tables
            ]
            optimizer = tf_condacc.DropStaleGradientOptimizer(
                v1.train.GradientDescentOptimizer(-1.0, use_locking=True), 2
            )
            optimizer.compute_gradients(tf.add_n([table[0] for table in tables]))
            index = v1.py_func(next_id, [], tf.int64)
            index.set_shape([])
            gradient = tf.IndexedSlices(tf.ones([1]), index[None])
            train = optimizer.apply_gradients([(gradient, table) for table in tables], step)
            accepted = last_decision(v1.get_default_graph()).outputs[0]

            def run(session: Any) -> int:
                _, value, was_accepted = session.run([train, index, accepted])
                log.add("push", id=int(value), accepted=bool(was_accepted))
                return int(value)

            def read(session: Any) -> dict[str, Any]:
                values = session.run(tables)
                assert all(set(np.unique(value)) <= {0, 1} for value in values), "counted twice"
                return {
                    name: np.nonzero(value)[0].tolist()
                    for name, value in zip(self._tables, values, strict=True)
                }

            self._loop(task, log, [], run, read)

    def _check(self, events: list[dict], openings: list[int], weights: dict[str, Any]) -> None:
        """Checks each gradient that was computed after the last restart of the chief."""
        tried = [event["id"] for event in events[openings[-1] :] if event["kind"] == "try"]
        known = {event["id"]: event["accepted"] for event in events if event["kind"] == "push"}
        ever = {event["id"] for event in events if event["kind"] == "try"}
        assert len(tried) > 20
        for name, applied in weights.items():
            applied = set(applied)
            assert applied <= ever, f"{name}: {applied - ever} were never made"
            for each in tried:
                if each in known:
                    assert (each in applied) == known[each], f"{name}: gradient {each}"


TRAININGS: dict[str, Callable[[Path], Training]] = {
    "backups": lambda folder: SyncTraining(folder, num_ps=2, replicas=2),
    "all_needed": lambda folder: SyncTraining(folder, num_ps=1, replicas=3),
    "unfiltered": lambda folder: DropStaleTraining(
        folder, 1, v1.ConfigProto(device_filters=["/job:ps", "/job:worker"])
    ),
    "drop_stale": lambda folder: DropStaleTraining(folder, num_ps=2),
}
