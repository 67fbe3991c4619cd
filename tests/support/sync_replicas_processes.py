"""Runs clusters of real processes.

The processes are forked from one that has imported TensorFlow and not used it: they start at once.
Programs import this module before anything that imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

import tensorflow as tf  # noqa: E402
from ports import free_cluster  # noqa: E402
from sync_replicas_log import PushLog, check_weights, read_log  # noqa: E402
from sync_replicas_program import Model  # noqa: E402
from tensorflow.python.training import session_manager  # noqa: E402

from tf_condacc._ops import ops  # noqa: E402

tf1 = tf.compat.v1
NUM_PS, NUM_WORKERS = 2, 3
VARIABLES = ("w", "b", "c")
CHECKPOINT_STEPS = 20
HANGS_AFTER_SECS = 30


def _end_with_parent() -> None:
    kill_when_parent_dies = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(kill_when_parent_dies, signal.SIGKILL)


class Restored(tf1.train.SessionRunHook):
    """Logs the weights of a chief's session before its gate is opened."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._model.log.add("restored", weights=self._model.weights(session))


class Cluster:
    """The processes of a cluster, which are named by job and task."""

    def __init__(self, folder: str, replicas: int, takeover_secs: float | None) -> None:
        self.spec = free_cluster(NUM_PS, NUM_WORKERS)
        self.folder = folder
        self.replicas = replicas
        self._takeover_secs = takeover_secs
        self.processes: dict[tuple[str, int], int] = {}
        self._dead: list[tuple[str, int]] = []
        self._num_started = 0

    @property
    def log_path(self) -> str:
        return f"{self.folder}/log"

    def open_log(self) -> PushLog:
        """Opens the log of all processes, to add events to it."""
        return PushLog(self.log_path)

    def start(self, job: str, task: int) -> None:
        self._num_started += 1
        process = os.fork()
        if process == 0:
            _end_with_parent()
            try:
                self._be(job, task, self._num_started)
            except BaseException as error:
                print(f"{job} {task}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        self.processes[job, task] = process

    def send(self, who: tuple[str, int], what: int) -> None:
        os.kill(self.processes[who], what)

    def kill(self, who: tuple[str, int]) -> None:
        process = self.processes.pop(who)
        os.kill(process, signal.SIGCONT)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)

    def dead(self) -> list[tuple[str, int]]:
        """Returns the processes that have ended by themselves."""
        dead = [
            who for who, process in self.processes.items() if os.waitpid(process, os.WNOHANG)[0]
        ]
        for who in dead:
            del self.processes[who]
        self._dead += dead
        return self._dead

    def model(self, task: int, log: PushLog, first: int = 0) -> Model:
        setter = tf1.train.replica_device_setter(
            cluster=self.spec, worker_device=f"/job:worker/task:{task}"
        )
        return Model(
            task,
            self.replicas,
            NUM_WORKERS,
            log,
            variables=VARIABLES,
            device=setter,
            sleep=lambda: time.sleep(0.003 * (task + 1)),
            configure={"takeover_secs": self._takeover_secs},
            first=first,
        )

    def read(self) -> tuple[Any, dict[str, float]]:
        """Returns the state of the gate and the weights."""
        setter = tf1.train.replica_device_setter(cluster=self.spec, worker_device="/job:ps/task:0")
        with tf.Graph().as_default() as graph, tf1.device(setter):
            step = tf1.get_variable("global_step", (), tf.int64, use_resource=True)
            weights = {
                name: tf1.get_variable(name, [2], tf.float64, use_resource=True)
                for name in (f"sync_replicas_{each}" for each in VARIABLES)
            }
            with tf1.device(step.device):
                state = ops.condacc_sync_gate_state(
                    ops.condacc_sync_gate(shared_name="sync_replicas/gate")
                )
        target = f"grpc://{self.spec['ps'][0]}"
        with tf1.Session(target, graph=graph, config=self.config()) as session:
            state, values = session.run([state, weights])
        return state, {name: float(value[0]) for name, value in values.items()}

    def config(self, task: int | None = None) -> Any:
        filters = ["/job:ps"] if task is None else ["/job:ps", f"/job:worker/task:{task}"]
        return tf1.ConfigProto(
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=4,
            device_filters=filters,
        )

    def _be(self, job: str, task: int, number: int) -> None:
        if job == "ps":
            tf1.train.Server(self.spec, job_name=job, task_index=task).join()
        config = self.config(task)
        server = tf1.train.Server(self.spec, job_name=job, task_index=task, config=config)
        # Sessions are tried twice a second instead of twice a minute.
        make = session_manager.SessionManager.__init__
        session_manager.SessionManager.__init__ = lambda self, *args, **kwargs: make(
            self, *args, **{**kwargs, "recovery_wait_secs": 0.5}
        )
        log = self.open_log()
        model = self.model(task, log, first=number * 10**4)
        chief = {"checkpoint_dir": self.folder, "save_checkpoint_steps": CHECKPOINT_STEPS}
        hooks = [Restored(model)] if task == 0 else []
        with (
            model.graph.as_default(),
            model.session(
                server.target, config=config, first_hooks=hooks, **(chief if task == 0 else {})
            ) as session,
        ):
            while not session.should_stop():
                step = model.run(session)
                log.add("step", task=task, step=step)


def steps(cluster: Cluster, task: int | None = None) -> int:
    """Returns how many steps a worker, or all workers, have made."""
    return sum(
        event["kind"] == "step" and task in (None, event["task"])
        for event in read_log(cluster.log_path)
    )


def await_steps(cluster: Cluster, count: int, task: int | None = None) -> None:
    """Waits for further steps of a worker, or of all; fails if there are none."""
    first, end = steps(cluster, task), time.monotonic() + HANGS_AFTER_SECS
    while steps(cluster, task) < first + count:
        assert not cluster.dead(), f"{cluster.dead()} ended"
        assert time.monotonic() < end, "training hangs"
        time.sleep(0.05)


def check(cluster: Cluster) -> dict[str, int]:
    """Ends the workers, and compares the weights with the logs since the last opening."""
    for task in range(NUM_WORKERS):
        cluster.kill(("worker", task))
    events = read_log(cluster.log_path)
    openings = [i for i, event in enumerate(events) if event["kind"] == "restored"]
    state, weights = cluster.read()
    last, restored = events[openings[-1] + 1 :], events[openings[-1]]["weights"]
    check_last_round(last, cluster.replicas, weights, restored)
    outcomes = [event["outcome"] for event in events if event["kind"] == "push"]
    return {
        "openings": len(openings),
        "takes": sum(event["kind"] == "take" for event in events),
        "pushes": len(outcomes),
        "duplicates": outcomes.count(2),
        "stale": outcomes.count(1),
        "takeovers": int(state.num_takeovers),
        "steps": sum(event["kind"] == "step" for event in events),
    }


def check_last_round(
    events: list[dict[str, Any]],
    replicas: int,
    weights: dict[str, float],
    base: dict[str, float],
) -> None:
    """Checks the weights. The chief may have died between the log of a take and its update."""
    last = max((event["round"] for event in events if event["kind"] == "take"), default=0)
    try:
        check_weights(events, replicas, weights, base)
    except AssertionError:
        whole = [event for event in events if event["kind"] != "take" or event["round"] < last]
        check_weights(whole, replicas, weights, base)


@contextlib.contextmanager
def running_cluster(replicas: int, takeover_secs: float | None) -> Iterator[Cluster]:
    """Runs a cluster that trains already. After an error, it prints the end of the log."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder, replicas, takeover_secs)
        open(cluster.log_path, "w").close()
        try:
            for job, tasks in cluster.spec.items():
                for task in range(len(tasks)):
                    cluster.start(job, task)
            await_steps(cluster, 20)
            yield cluster
        except BaseException:
            print(*read_log(cluster.log_path)[-40:], sep="\n", file=sys.stderr)
            raise
        finally:
            for who in list(cluster.processes):
                cluster.kill(who)
