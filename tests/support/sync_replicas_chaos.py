"""Kills and stops the processes of a cluster at random, and checks what was trained.

    python sync_replicas_chaos.py SECONDS SEED [FOLDER]

The processes are forked from one that has imported TensorFlow and not used it: they start at once.
Prints what was done, as JSON, and fails if a round was not the sum of one gradient from each slot
or the weights are not what the logs say.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

import tensorflow as tf  # noqa: E402
from sync_replicas_program import Model, PushLog, check_weights, read_log  # noqa: E402
from tensorflow.python.training import session_manager  # noqa: E402

from tf_condacc._ops import ops  # noqa: E402

tf1 = tf.compat.v1
NUM_PS, NUM_WORKERS, REPLICAS = 2, 3, 2
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
    """The processes, by job and task."""

    def __init__(self, folder: str) -> None:
        sockets = [socket.create_server(("localhost", 0)) for _ in range(NUM_PS + NUM_WORKERS)]
        addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
        for each in sockets:
            each.close()
        self.spec = {"ps": addresses[:NUM_PS], "worker": addresses[NUM_PS:]}
        self.folder = folder
        self.processes: dict[tuple[str, int], int] = {}
        self._dead: list[tuple[str, int]] = []
        self._num_started = 0

    @property
    def log_path(self) -> str:
        return f"{self.folder}/log"

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
        """Those that have ended by themselves."""
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
            REPLICAS,
            NUM_WORKERS,
            log,
            variables=VARIABLES,
            device=setter,
            sleep=lambda: time.sleep(0.003 * (task + 1)),
            configure={"takeover_secs": 0.3},
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
        log = PushLog(self.log_path)
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


def steps(cluster: Cluster) -> int:
    return sum(event["kind"] == "step" for event in read_log(cluster.log_path))


def await_steps(cluster: Cluster, count: int) -> None:
    """Waits for further steps; fails if there are none."""
    first, end = steps(cluster), time.monotonic() + HANGS_AFTER_SECS
    while steps(cluster) < first + count:
        assert not cluster.dead(), f"{cluster.dead()} ended"
        assert time.monotonic() < end, "training hangs"
        time.sleep(0.05)


def disturb(cluster: Cluster, seconds: float, chance: random.Random) -> dict[str, int]:
    """Kills and stops processes for some time; those that were killed are started again."""
    log = PushLog(cluster.log_path)
    counts = {"kills": 0, "stops": 0, "chiefs": 0, "servers": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = chance.random()
        who = ("worker", chance.choice([1, 2]))
        if kind < 0.15:
            who = ("worker", 0)
        elif kind < 0.25:
            who = ("ps", chance.randrange(NUM_PS))
        time.sleep(chance.random() * 0.4)
        kills = chance.random() < 0.5
        log.add("kill" if kills else "stop", who=f"{who[0]} {who[1]}")
        if kills:
            cluster.kill(who)
            time.sleep(chance.random() * 0.5)
            cluster.start(*who)
            counts["kills"] += 1
            counts["chiefs"] += who == ("worker", 0)
            counts["servers"] += who[0] == "ps"
            await_steps(cluster, 5)
        else:
            cluster.send(who, signal.SIGSTOP)
            time.sleep(chance.random() * 0.8)
            cluster.send(who, signal.SIGCONT)
            counts["stops"] += 1
        assert not cluster.dead(), f"{cluster.dead()} ended"
    return counts


def check(cluster: Cluster) -> dict[str, int]:
    """Ends the workers, and compares the weights with the logs since the last opening."""
    for task in range(NUM_WORKERS):
        cluster.kill(("worker", task))
    events = read_log(cluster.log_path)
    openings = [i for i, event in enumerate(events) if event["kind"] == "restored"]
    state, weights = cluster.read()
    check_last_round(events[openings[-1] + 1 :], weights, events[openings[-1]]["weights"])
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
    events: list[dict[str, Any]], weights: dict[str, float], base: dict[str, float]
) -> None:
    """Checks the weights. The chief may have died between the log of a take and its update."""
    last = max((event["round"] for event in events if event["kind"] == "take"), default=0)
    try:
        check_weights(events, REPLICAS, weights, base)
    except AssertionError:
        whole = [event for event in events if event["kind"] != "take" or event["round"] < last]
        check_weights(whole, REPLICAS, weights, base)


def main() -> None:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        open(cluster.log_path, "w").close()
        try:
            for job, tasks in cluster.spec.items():
                for task in range(len(tasks)):
                    cluster.start(job, task)
            await_steps(cluster, 20)
            done = disturb(cluster, seconds, random.Random(seed))
            await_steps(cluster, 20)
            print(json.dumps({"seed": seed, **done, **check(cluster)}), flush=True)
        except BaseException:
            print(*read_log(cluster.log_path)[-40:], sep="\n", file=sys.stderr)
            raise
        finally:
            for who in list(cluster.processes):
                cluster.kill(who)
    os._exit(0)


if __name__ == "__main__":
    main()
