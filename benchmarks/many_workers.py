"""Measures what a worker and a step cost a parameter server, by the number of workers.

    python benchmarks/many_workers.py --workers 8 64 256

A server in a process of its own has the variables, the accumulators and the gate. The workers are
threads of this process with graphs and sessions of their own. All of them train in lock step, with
a gradient of eight bytes, so a step costs what synchronization costs. The network is a loopback
device that nobody else uses, if one can be made here, and its packets and bytes are counted. For
comparison, the same sessions then read the eight bytes of weights in lock step, without a gate:
what that costs is TensorFlow's part.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from condacc_bench.quiet import without_log

with without_log():
    import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1
_TICKS = os.sysconf("SC_CLK_TCK")
_IN_NAMESPACE = "CONDACC_MANY_WORKERS_NAMESPACE"


class Usage(NamedTuple):
    """Holds what a process has used since some moment.

    Attributes:
        seconds: Time.
        server: CPU seconds of the server.
        workers: CPU seconds of the process of the workers.
        packets: Packets that were sent, acknowledgements included.
        bytes: Bytes in these packets.
    """

    seconds: float
    server: float
    workers: float
    packets: float
    bytes: float

    def since(self, before: Usage) -> Usage:
        return Usage(*(now - then for now, then in zip(self, before, strict=True)))


class Worker:
    """A worker with a graph and a session of its own.

    Args:
        number: Its number; worker 0 is the chief.
        total: Number of workers.
        target: The server.
        name: Name of the optimizer and prefix of the variables, which differ in each measurement.
    """

    def __init__(self, number: int, total: int, target: str, name: str) -> None:
        with tf.Graph().as_default() as graph:
            step = v1.train.create_global_step()
            weights = v1.get_variable(
                f"{name}_weights", [2], initializer=v1.ones_initializer(), use_resource=True
            )
            optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(1e-3), total, name=name
            )
            self._train = optimizer.minimize(tf.reduce_sum(weights), step)
            self._read = weights.read_value()
            config = v1.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=1)
            self._session = v1.train.MonitoredTrainingSession(
                target,
                is_chief=number == 0,
                hooks=[optimizer.make_session_run_hook(number == 0)],
                config=config,
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                log_step_count_steps=None,
            )
        self._graph = graph

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._train)

    def read(self, steps: int, barrier: threading.Barrier) -> None:
        """Reads the weights in lock step with the other workers, without a gate."""
        for _ in range(steps):
            self._session._tf_sess().run(self._read)
            barrier.wait()

    def close(self) -> None:
        self._session.close()


def in_threads(calls: list[Any]) -> None:
    """Makes calls at the same time, and waits for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def used(server: int, begun: float) -> Usage:
    """Returns what was used since `begun` and, for CPU and network, in all."""
    packets = bytes_ = float("nan")
    if _IN_NAMESPACE in os.environ:
        line = next(x for x in Path("/proc/net/dev").read_text().splitlines() if "lo:" in x)
        received = line.partition(":")[2].split()
        bytes_, packets = float(received[0]), float(received[1])
    return Usage(
        time.monotonic() - begun, _cpu_seconds(server), _cpu_seconds(os.getpid()), packets, bytes_
    )


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(target: str, server: int, num_workers: int, seconds: float) -> tuple[int, Usage, Usage]:
    """Returns a number of steps, what they used, and what as many reads without a gate used."""
    workers: list[Worker] = []
    for number in range(num_workers):
        workers.append(Worker(number, num_workers, target, f"many_{num_workers}"))
    warm_up = 5
    begun = time.monotonic()
    in_threads([lambda w=w: w.train(warm_up) for w in workers])
    steps = max(10, int(seconds / ((time.monotonic() - begun) / warm_up)))
    begun = time.monotonic()
    before = used(server, begun)
    in_threads([lambda w=w: w.train(steps) for w in workers])
    usage = used(server, begun).since(before)
    barrier = threading.Barrier(num_workers)
    in_threads([lambda w=w: w.read(warm_up, barrier) for w in workers])
    begun = time.monotonic()
    before = used(server, begun)
    in_threads([lambda w=w: w.read(steps, barrier) for w in workers])
    reads = used(server, begun).since(before)
    # The chief ends the others, so it must be the last to be closed.
    in_threads([worker.close for worker in reversed(workers)])
    return steps, usage, reads


def serve(port: int) -> None:
    """Is the server."""
    v1.train.Server({"local": [f"127.0.0.1:{port}"]}).join()


def report(num_workers: int, steps: int, usage: Usage, reads: Usage) -> str:
    """Returns a line about a measurement."""
    each = num_workers * steps
    return (
        f"{num_workers:>5} workers, {steps:>5} steps of {usage.seconds / steps * 1e3:8.2f} ms; "
        f"per worker and step: {usage.server / each * 1e6:6.0f} us CPU of the server, "
        f"{usage.workers / each * 1e6:6.0f} us of the workers, {usage.packets / each:5.1f} packets,"
        f" {usage.bytes / each:6.0f} bytes; a read without a gate: "
        f"{reads.server / each * 1e6:.0f} us of the server, {reads.workers / each * 1e6:.0f} us"
    )


def main() -> None:
    """Measures each number of workers, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--seconds", type=float, default=10, help="time of each measurement")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    _enter_namespace()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for num_workers in options.workers:
        server = subprocess.Popen([sys.executable, __file__, "--serve", str(port)])
        try:
            result = measure(f"grpc://127.0.0.1:{port}", server.pid, num_workers, options.seconds)
            print(report(num_workers, *result), flush=True)
        finally:
            server.kill()
            server.wait()


def _enter_namespace() -> None:
    """Starts this program again in a network of its own, if the system lets it."""
    if _IN_NAMESPACE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    probe = ["unshare", "--net", "true"]
    if shutil.which("ip") and shutil.which("unshare") and subprocess.run(probe).returncode == 0:
        os.environ[_IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


if __name__ == "__main__":
    main()
