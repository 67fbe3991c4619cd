"""Clusters of parameter servers and workers: in this process, or of forked processes."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.processes.parent_process import end_with_parent
from tests.processes.separate_hosts import ADDRESSES, SeparateHosts
from tests.support.gpus import skip_on_gpu
from tests.support.ports import free_cluster
from tests.support.sync_replicas_log import LogReader
from tests.support.waiting import shown_logs, until

v1 = tf.compat.v1
Task = tuple[str, int]  # Job and number.


class LocalCluster:
    """The servers of a cluster in this process. They cannot stop, so tests share them.

    Attributes:
        targets: The targets of the workers.
        ps_target: The target of the first parameter server.
    """

    def __init__(self, num_ps: int, num_workers: int) -> None:
        self.spec = free_cluster(num_ps, num_workers)
        self._servers = [
            v1.train.Server(self.spec, job_name=job, task_index=task)
            for job, tasks in self.spec.items()
            for task in range(len(tasks))
        ]
        self.targets = [server.target for server in self._servers[num_ps:]]
        self.ps_target = self._servers[0].target

    def device(self, task: int) -> Any:
        """Returns the device function of a worker."""
        return v1.train.replica_device_setter(
            cluster=self.spec, worker_device=f"/job:worker/task:{task}"
        )


class ForkedCluster:
    """The processes of a cluster, which start at once.

    They are forked, so this process must not have used TensorFlow; see `isolated`.

    Args:
        folder: Folder of the log and of what the processes write to their standard error.
        num_ps: Number of parameter servers.
        num_workers: Number of workers.
        be: Called in each process with its job, its number and how many processes were started
            before, with TF_CONFIG set. The process ends with status 0 when it returns.
    """

    def __init__(
        self, folder: Path, num_ps: int, num_workers: int, be: Callable[[str, int, int], None]
    ) -> None:
        skip_on_gpu("a forked process cannot use CUDA if its parent has")
        self.spec = free_cluster(num_ps, num_workers)
        self.folder = folder
        self.log_path = str(folder / "log")
        Path(self.log_path).touch()
        self._log = LogReader(self.log_path)
        self.running: dict[Task, int] = {}
        self.statuses: dict[Task, int] = {}
        self._be = be
        self._num_started = 0
        self._enter_host: Callable[[Task], None] = lambda who: None

    def put_on(self, hosts: SeparateHosts, host_of: Callable[[Task], int]) -> None:
        """Puts each process on one of the hosts, whose ports are all free."""
        ports = itertools.count(31_000)
        self.spec = {
            job: [f"{ADDRESSES[host_of((job, i))]}:{next(ports)}" for i in range(len(addresses))]
            for job, addresses in self.spec.items()
        }
        self._enter_host = lambda who: hosts.enter(host_of(who))

    def __enter__(self) -> ForkedCluster:
        shown_logs.append(self._texts)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        shown_logs.remove(self._texts)
        if kind is not None:
            print(
                "The last events of the log:", *self.all_events()[-40:], sep="\n", file=sys.stderr
            )
        for who in list(self.running):
            self.kill(who)

    def tasks(self) -> Iterator[Task]:
        return (
            (job, task) for job, addresses in self.spec.items() for task in range(len(addresses))
        )

    def start(self, *tasks: Task) -> None:
        """Starts processes; all of the cluster that do not run if none are given."""
        for who in tasks or [who for who in self.tasks() if who not in self.running]:
            self._num_started += 1
            parent, process = os.getpid(), os.fork()
            if process == 0:
                self._run(who, parent)
            self.running[who] = process

    def kill(self, who: Task) -> None:
        process = self.running.pop(who)
        os.kill(process, signal.SIGKILL)  # SIGKILL ends frozen processes, too.
        os.waitpid(process, 0)

    def terminate(self, *tasks: Task) -> None:
        """Tells processes to end, as schedulers do that need their machine."""
        for who in tasks:
            os.kill(self.running[who], signal.SIGTERM)

    def freeze(self, who: Task) -> None:
        os.kill(self.running[who], signal.SIGSTOP)

    def unfreeze(self, who: Task) -> None:
        os.kill(self.running[who], signal.SIGCONT)

    def check_running(self) -> None:
        """Raises an error if a process has ended by itself."""
        self._collect()
        assert not self.statuses, f"{self.statuses} ended:\n{self.logs()}"

    def await_end(self, *tasks: Task) -> dict[Task, int]:
        """Waits until processes have ended by themselves; returns and forgets their statuses."""
        waited = tasks or tuple(self.running)

        def have_ended() -> bool:
            self._collect()
            return not any(who in self.running for who in waited)

        until(have_ended, f"the end of {waited}", pause_secs=0.01)
        return {who: self.statuses.pop(who) for who in waited}

    def messages(self, since: dict[Task, int] | None = None) -> str:
        """Returns what processes have written to their standard error.

        Args:
            since: How much of each was there before, as `messages_so_far` returns it.
        """
        return "".join(self._stderr(who)[(since or {}).get(who, 0) :] for who in self.tasks())

    def logs(self) -> str:
        """Returns the end of what each process has written to its standard error, by its name."""
        return "\n".join(f"--- {name}\n{text[-4000:]}" for name, text in self._texts().items())

    def messages_so_far(self) -> dict[Task, int]:
        return {who: len(self._stderr(who)) for who in self.tasks()}

    def all_events(self) -> list[dict]:
        return self._log.read()

    def events(self, kind: str) -> list[dict]:
        return [event for event in self.all_events() if event["kind"] == kind]

    def await_that(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until something holds, while no process ends by itself."""

        def holds_now() -> bool:
            self.check_running()
            return holds()

        until(holds_now, what, pause_secs=0.02)

    def await_steps(self, count: int, *workers: int) -> None:
        """Waits until workers, or any of them if none are given, have made further steps."""

        def steps() -> list[int]:
            made = [event["task"] for event in self.events("step")]
            return [made.count(worker) for worker in workers] or [len(made)]

        first = steps()
        self.await_that(
            lambda: all(now >= one + count for now, one in zip(steps(), first, strict=True)),
            f"{count} steps of {workers or 'any'}",
        )

    def _texts(self) -> dict[str, str]:
        return {f"{job} {task}": self._stderr((job, task)) for job, task in self.tasks()}

    def _stderr_path(self, who: Task) -> Path:
        return self.folder / f"{who[0]}-{who[1]}.stderr"

    def _stderr(self, who: Task) -> str:
        path = self._stderr_path(who)
        return path.read_text(errors="replace") if path.exists() else ""

    def _collect(self) -> None:
        for who, process in list(self.running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del self.running[who]
                self.statuses[who] = os.waitstatus_to_exitcode(status)

    def _run(self, who: Task, parent: int) -> None:
        job, task = who
        status = 1
        try:
            end_with_parent(parent)
            self._enter_host(who)
            errors = os.open(self._stderr_path(who), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(errors, 2)
            sys.stderr = open(2, "w", buffering=1, closefd=False)  # pytest has replaced it.
            logging.basicConfig(level=logging.WARNING, force=True)
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": self.spec, "task": {"type": job, "index": task}}
            )
            self._be(job, task, self._num_started)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
