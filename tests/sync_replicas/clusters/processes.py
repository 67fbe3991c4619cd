"""Clusters of processes that train synchronously."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.training import session_manager

from tests.processes.clusters import ForkedCluster, Task
from tests.processes.separate_hosts import SeparateHosts
from tests.support.sync_replicas_log import PushLog, check_weights, read_log
from tests.support.sync_replicas_program import NumberedModel, Restored, WorkerProgram
from tests.support.waiting import PATIENCE_SECS, work
from tf_condacc._ops.native import ops

v1 = tf.compat.v1
NUM_PS, NUM_WORKERS = 2, 3
VARIABLES = ("w", "b", "c")


class Cluster(ForkedCluster):
    """A cluster whose workers train synchronously, with a place for another one of them.

    Args:
        folder: Folder of the log, of checkpoints, and of what the processes write.
        replicas: Number of gradients in a round.
        takeover_secs: Option of the optimizer.
        num_workers: Number of workers that train at once, the chief included.
        hosts: Two hosts on which its processes are, or None for this machine.

    Attributes:
        checkpoint_steps: A checkpoint is saved after so many updates.
        chief: The place of the chief among the workers.
        spare: The place among the workers where another one can be started.
    """

    checkpoint_steps = 20

    def __init__(
        self,
        folder: Path,
        replicas: int,
        takeover_secs: float | None,
        num_workers: int = NUM_WORKERS,
        hosts: SeparateHosts | None = None,
    ) -> None:
        super().__init__(folder, NUM_PS, num_workers + 1, self._train)
        self.replicas = replicas
        self.num_workers = num_workers
        self.chief, self.spare = 0, num_workers
        self._takeover_secs = takeover_secs
        if hosts is not None:
            self.put_on(hosts, lambda who: who[1] % 2)

    def start_all(self) -> None:
        """Starts all processes but that of the spare place."""
        self.start(*[who for who in self.tasks() if who != ("worker", self.spare)])

    def replace_frozen_chief(self) -> None:
        """Starts another chief, and then lets the frozen one go on, which ends alone."""
        old = ("worker", self.chief)
        self.chief, self.spare = self.spare, self.chief
        self.start(("worker", self.chief))
        self.await_steps(10, *self.workers())
        self.unfreeze(old)
        assert self.await_end(old) == {old: 1}
        self.await_steps(5, *self.workers())

    def workers(self) -> list[int]:
        """Returns the places of the workers that train, the chief first."""
        places = [self.chief, *range(self.num_workers + 1)]
        return [place for place in dict.fromkeys(places) if place != self.spare]

    def open_log(self) -> PushLog:
        """Opens the log of all processes, to add events to it."""
        return PushLog(self.log_path)

    def device(self, task: int) -> Any:
        """Returns the device function of a worker."""
        return v1.train.replica_device_setter(
            cluster=self.spec, worker_device=f"/job:worker/task:{task}"
        )

    def model(self, task: int, log: PushLog, first: int = 0, **arguments: Any) -> WorkerProgram:
        return NumberedModel(
            task,
            self.replicas,
            self.num_workers,
            log,
            variables=VARIABLES,
            device=self.device(task),
            sleep=lambda: work(0.003 * (task + 1)),
            configure={"takeover_secs": self._takeover_secs, "report_secs": PATIENCE_SECS},
            first=first,
            is_chief=task == self.chief,
            **arguments,
        )

    def hooks(self, model: WorkerProgram) -> list[Any]:
        """Returns the hooks that come before that of the optimizer."""
        return [Restored(model.log, model.restored)] if model.is_chief else []

    def is_frozen(self, who: Task) -> bool:
        status = Path(f"/proc/{self.running[who]}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    def await_frozen(self, who: Task) -> None:
        """Waits until a process that freezes itself has done so."""
        self.await_that(lambda: self.is_frozen(who), f"{who} is frozen")

    def read(self) -> tuple[Any, dict[str, float]]:
        """Returns the state of the gate and the weights."""
        setter = v1.train.replica_device_setter(cluster=self.spec, worker_device="/job:ps/task:0")
        with tf.Graph().as_default() as graph, v1.device(setter):
            step = v1.get_variable("global_step", (), tf.int64, use_resource=True)
            weights = {
                name: v1.get_variable(name, [2], tf.float64, use_resource=True)
                for name in (f"sync_replicas_{each}" for each in VARIABLES)
            }
            with v1.device(step.device):
                state = ops.condacc_sync_gate_state(
                    ops.condacc_sync_gate(shared_name="sync_replicas/gate")
                )
        target = f"grpc://{self.spec['ps'][0]}"
        with v1.Session(target, graph=graph, config=self.config()) as session:
            state, values = session.run([state, weights])
        return state, {name: float(value[0]) for name, value in values.items()}

    def config(self, task: int | None = None) -> Any:
        filters = ["/job:ps"] if task is None else ["/job:ps", f"/job:worker/task:{task}"]
        return v1.ConfigProto(
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=4,
            device_filters=filters,
        )

    def _train(self, job: str, task: int, number: int) -> None:
        if job == "ps":
            v1.train.Server(self.spec, job_name=job, task_index=task).join()
        config = self.config(task)
        server = v1.train.Server(self.spec, job_name=job, task_index=task, config=config)
        # Session creation is retried twice a second instead of twice a minute.
        make = session_manager.SessionManager.__init__
        session_manager.SessionManager.__init__ = lambda self, *args, **kwargs: make(
            self, *args, **{**kwargs, "recovery_wait_secs": 0.5}
        )
        log = self.open_log()
        model = self.model(task, log, first=number * 10**4)
        chief = {"checkpoint_dir": str(self.folder), "save_checkpoint_steps": self.checkpoint_steps}
        hooks = self.hooks(model)
        with (
            model.graph.as_default(),
            model.session(
                server.target, config=config, first_hooks=hooks, **(chief if model.is_chief else {})
            ) as session,
        ):
            while not session.should_stop():
                step = model.run(session)
                log.add("step", task=task, step=step)


def check(cluster: Cluster) -> dict[str, int]:
    """Ends the workers, and compares the weights with the logs since the last opening."""
    for who in [who for who in cluster.running if who[0] == "worker"]:
        cluster.kill(who)
    events = read_log(cluster.log_path)
    openings = [i for i, event in enumerate(events) if event["kind"] == "restored"]
    state, weights = cluster.read()
    opening, last = events[openings[-1]], events[openings[-1] + 1 :]
    late = [
        event for event in last if event["kind"] == "take" and event["round"] <= opening["round"]
    ]
    own = [event for event in last if event not in late]
    check_weights(
        own, cluster.replicas, weights, opening["weights"], chief_was_killed=True, late=late
    )
    counts = collections.Counter(event["kind"] for event in events)
    return {**counts, "takeovers": int(state.num_takeovers), "late": len(late)}
