"""A process of a cluster: `python FILE {"job": ..., "index": ..., "ports": {job: [port]}}`.

A parameter server serves until it is killed. A worker reads jobs, one JSON line each, and answers
each with a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.forked_python import forked_python

PS = "/job:ps/task:0"


def worker_device(worker: int) -> str:
    return f"/job:worker/task:{worker}/device:CPU:0"


class Member:
    """A process of a cluster, which is started by the constructor and ended by `kill`."""

    def __init__(self, job: str, index: int, ports: dict[str, list[int]]) -> None:
        setting = json.dumps({"job": job, "index": index, "ports": ports})
        self._process = subprocess.Popen(
            [*forked_python(), __file__, setting],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, **job: Any) -> None:
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Returns the next answer, and skips other output of the process."""
        for line in self._process.stdout:
            if line.startswith('{"answer"'):
                return json.loads(line)["answer"]
        raise AssertionError(f"the process ended: {self._process.wait(10)}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


def _answer(value: Any) -> None:
    # The line is written in one piece, because other threads answer as well.
    sys.stdout.write(json.dumps({"answer": value}) + "\n")
    sys.stdout.flush()


def _rounds(server: Any, index: int, job: dict[str, Any]) -> None:
    """Runs tries together with the other workers, and answers with the decisions."""
    from tests.support.drop_stale_atomic_support import Record, Workers, dropping, v1

    workers = Workers(
        dropping(job["limit"]),
        job["count"],
        overlap=job["overlap"],
        name=job["name"],
        only=[index],
        devices=(PS, worker_device),
    )
    record = Record()
    with v1.Session(server.target, graph=workers.graph) as session:
        if index == 0:
            session.run(workers.init)
        _answer("ready")
        sys.stdin.readline()
        for _ in range(job["rounds"]):
            record.add(session.run(workers.tries[0]))
        _answer(record.rows)


def _hold(server: Any, index: int, job: dict[str, Any]) -> None:
    """Has updates accepted, answers for each, and never applies them."""
    import threading

    from tests.support.drop_stale_atomic_support import Descent, Workers, dropping, tf, v1

    forever = threading.Event()

    def hold(decided: Any) -> Any:
        def answer_and_hold(accepted: Any) -> Any:
            _answer(bool(accepted))
            forever.wait()
            return accepted

        with v1.device(worker_device(index)):
            held = v1.py_func(answer_and_hold, [decided.outputs[0]], tf.bool, stateful=True)
            return tf.cast(held, tf.int32)

    workers = Workers(
        lambda _: dropping(job["limit"])(Descent(hold)),
        index + 1,
        together=False,
        only=[index],
        devices=(PS, worker_device),
    )
    config = v1.ConfigProto(device_filters=[PS, worker_device(index)])
    session = v1.Session(server.target, graph=workers.graph, config=config)
    for _ in range(job["updates"]):
        threading.Thread(target=session.run, args=(workers.tries[0],), daemon=True).start()


def main(setting: dict[str, Any]) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import tensorflow as tf

    from tests.support.drop_stale_support import WORLDS, world_of

    addresses = {
        job: [f"localhost:{port}" for port in ports] for job, ports in setting["ports"].items()
    }
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8)
    server = tf.compat.v1.train.Server(
        addresses, job_name=setting["job"], task_index=setting["index"], config=config
    )
    _answer("started")
    for line in sys.stdin:
        job = json.loads(line)
        with world_of(*WORLDS[job["world"]]):
            {"rounds": _rounds, "hold": _hold}[job["do"]](server, setting["index"], job)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
