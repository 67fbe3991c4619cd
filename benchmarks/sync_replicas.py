#!/usr/bin/env python3
"""Compares steps per second of both SyncReplicasOptimizers with real processes.

Each run starts parameter servers and workers, trains a tiny model and measures the steps of worker
0 after the first ones. Runs of both optimizers alternate; the result is the median of the ratios of
neighbours.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_WARM_UP = 60
_TIME_LIMIT = 120


def main() -> None:
    """Prints steps per second and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ps", type=int, nargs="+", default=[1, 2], help="numbers of servers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=500, help="steps that are measured in a run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, default=4, help="elements of each of 3 variables")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.path.insert(0, str(_HERE.parent))
    # Imported once, and not used before the processes are forked: they start in no time.
    import tensorflow as tf

    import tf_condacc  # noqa: F401

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.FATAL)
    for num_ps in options.ps:
        ratios, rates = [], {"condacc": [], "tensorflow": []}
        for i in range(options.repeats):
            order = ("condacc", "tensorflow") if i % 2 == 0 else ("tensorflow", "condacc")
            pair = {library: _measure(library, num_ps, options) for library in order}
            ratios.append(pair["condacc"] / pair["tensorflow"])
            for library, rate in pair.items():
                rates[library].append(rate)
        ours, theirs = (statistics.median(rates[each]) for each in ("condacc", "tensorflow"))
        print(
            f"{num_ps} ps, {options.workers} workers: {statistics.median(ratios):.3f} "
            f"({min(ratios):.2f}-{max(ratios):.2f}); {ours:.0f} : {theirs:.0f} steps/s",
            flush=True,
        )


def _measure(library: str, num_ps: int, options: argparse.Namespace) -> float:
    """Returns the steps per second of one run."""
    addresses = _free_addresses(num_ps + options.workers)
    cluster = {"ps": addresses[:num_ps], "worker": addresses[num_ps:]}
    reader, writer = os.pipe()
    processes = []
    for job, tasks in cluster.items():
        for task in range(len(tasks)):
            process = os.fork()
            if process == 0:
                _be(library, cluster, job, task, writer, options)
            processes.append(process)
    os.close(writer)
    try:
        with os.fdopen(reader) as results:
            return float(results.readline())
    finally:
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def _be(
    library: str,
    cluster: dict[str, list[str]],
    job: str,
    task: int,
    writer: int,
    options: argparse.Namespace,
) -> None:
    """Is one process of the cluster; never returns."""
    signal.alarm(_TIME_LIMIT)
    try:
        import tensorflow as tf

        tf1 = tf.compat.v1
        tf1.disable_eager_execution()
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
        if job == "worker":
            config.device_filters.extend(["/job:ps", f"/job:worker/task:{task}"])
        server = tf1.train.Server(cluster, job_name=job, task_index=task, config=config)
        if job == "ps":
            server.join()
        _train(library, cluster, server.target, task, writer, config, options)
    except BaseException as error:
        print(f"{job} {task}: {error!r}", file=sys.stderr)
    os._exit(1)


def _train(
    library: str,
    cluster: dict[str, list[str]],
    target: str,
    task: int,
    writer: int,
    config: Any,
    options: argparse.Namespace,
) -> None:
    import tensorflow as tf
    from tensorflow.python.training import session_manager

    import tf_condacc

    tf1 = tf.compat.v1
    # Workers look once in 30 s whether the chief is ready; here they look at once.
    make = session_manager.SessionManager.__init__
    session_manager.SessionManager.__init__ = lambda self, *args, **kwargs: make(
        self, *args, **{**kwargs, "recovery_wait_secs": 0.2}
    )
    source = tf_condacc if library == "condacc" else tf1.train
    worker = f"/job:worker/task:{task}"
    setter = tf1.train.replica_device_setter(cluster=cluster, worker_device=worker)
    with tf.Graph().as_default(), tf1.device(setter):
        step = tf1.train.get_or_create_global_step()
        variables = [
            tf1.get_variable(name, [options.size], use_resource=True) for name in ("a", "b", "c")
        ]
        loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
        optimizer = source.SyncReplicasOptimizer(
            tf1.train.GradientDescentOptimizer(0.01), options.workers, options.workers
        )
        train = optimizer.minimize(loss, global_step=step)
        with tf1.train.MonitoredTrainingSession(
            target,
            is_chief=task == 0,
            hooks=[optimizer.make_session_run_hook(task == 0)],
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            log_step_count_steps=None,
            config=config,
        ) as session:
            while session.run([train, step])[1] < _WARM_UP:
                pass
            start, first = time.perf_counter(), session.run(step)
            reached = first
            while reached < first + options.steps:
                reached = session.run([train, step])[1]
            rate = (reached - first) / (time.perf_counter() - start)
            if task == 0:
                os.write(writer, f"{rate}\n".encode())
            while True:  # Until the process is ended.
                session.run(train)


if __name__ == "__main__":
    main()
