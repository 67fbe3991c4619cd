"""Reads and checks ``TF_CONFIG``, which gives a process its place in a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

CHIEF_JOBS = ("chief", "master")
PS_JOB = "ps"
EVALUATOR_JOB = "evaluator"
# Set in the tasks of `condacc launch`, whose servers serve one run of the program only.
LAUNCHED = "TF_CONDACC_LAUNCHED"
_MAX_PORT = 65535


class TaskConfig(NamedTuple):
    """The place of one process in a cluster.

    Attributes:
        cluster: Addresses of the tasks of each job; empty if the process is alone.
        task_type: Job of this task.
        task_id: Number of this task in its job.
    """

    cluster: dict[str, list[str]]
    task_type: str
    task_id: int

    @property
    def chief(self) -> tuple[str, int]:
        """Job and number of the chief: the first task of the chief's job, else the first worker."""
        jobs = [job for job in CHIEF_JOBS if job in self.cluster]
        return (jobs[0] if jobs else "worker"), 0

    @property
    def workers(self) -> list[tuple[str, int]]:
        """Job and number of each task that trains, the chief included."""
        jobs = [job for job in (*CHIEF_JOBS, "worker") if job in self.cluster]
        return [(job, task) for job in jobs for task in range(len(self.cluster[job]))]


ALONE = TaskConfig({}, "worker", 0)


def read(config: Mapping[str, Any] | str | None) -> TaskConfig:
    """Returns the place of this process in its cluster.

    Args:
        config: The value of ``TF_CONFIG``, as text or as the object that it describes. None to read
            the environment variable; if that is not set, the process is alone.

    Raises:
        ValueError: The value does not describe a cluster and a task of it.
    """
    config = entries(config)
    if not config.get("cluster"):
        return _checked_task_without_cluster(config)
    return _checked_task(config, _checked_cluster(config["cluster"]))


def entries(config: Mapping[str, Any] | str | None = None) -> Mapping[str, Any]:
    """Returns the entries of ``TF_CONFIG``, which may describe no cluster.

    Args:
        config: The value of ``TF_CONFIG``, as `read` takes it.

    Raises:
        ValueError: The value is not a JSON object.
    """
    if config is None:
        config = os.environ.get("TF_CONFIG") or "{}"
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"TF_CONFIG is not valid JSON ({error}): {config!r}") from None
    if not isinstance(config, Mapping):
        raise ValueError(f"TF_CONFIG must be a JSON object, got {config!r}")
    return config


def ports(cluster: Mapping[str, list[str]]) -> set[int]:
    """Returns the ports of all tasks."""
    return {int(each.rpartition(":")[2]) for addresses in cluster.values() for each in addresses}


def _checked_task_without_cluster(config: Mapping[str, Any]) -> TaskConfig:
    """Returns the place of a process that is alone.

    Any other task would train alone as well, each as a chief, and all into the same folder.
    """
    task = config.get("task") or {}
    job, number = "", -1
    if isinstance(task, Mapping):
        job, number = task.get("type", "worker"), _number(task.get("index", 0))
    if job == EVALUATOR_JOB:
        return TaskConfig({}, job, 0)
    if job not in (*CHIEF_JOBS, "worker") or number != 0:
        raise ValueError(
            'If "cluster" is not set in TF_CONFIG, task type must be WORKER or CHIEF and task '
            f"index must be 0; got the task {task!r}, and the keys {sorted(config)}"
        )
    return ALONE


def _checked_cluster(cluster: Any) -> dict[str, list[str]]:
    if not isinstance(cluster, Mapping):
        raise ValueError(f"TF_CONFIG: 'cluster' must be an object, got {cluster!r}")
    for job, addresses in cluster.items():
        is_list = isinstance(addresses, list | tuple) and len(addresses) > 0
        if not is_list or not all(_is_address(each) for each in addresses):
            raise ValueError(
                f"TF_CONFIG: job '{job}' must be a list of addresses 'host:port', with "
                f"ports from 1 to {_MAX_PORT}; got {addresses!r}"
            )
    _check_that_addresses_differ(cluster)
    result = {job: list(addresses) for job, addresses in cluster.items()}
    workers = TaskConfig(result, "", 0).workers
    if not workers:
        raise ValueError(f"TF_CONFIG: the cluster has no chief and no worker, got {cluster!r}")
    if sum(job in CHIEF_JOBS for job, _ in workers) > 1:
        raise ValueError(f"TF_CONFIG: the cluster must have one chief, got {cluster!r}")
    if len(workers) > 1 and PS_JOB not in result:
        raise ValueError(
            f"TF_CONFIG: {len(workers)} tasks that train need a parameter server, on which they "
            f"share the variables; got {cluster!r}"
        )
    return result


def _is_address(address: Any) -> bool:
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    return bool(host) and 1 <= _number(port) <= _MAX_PORT


def _check_that_addresses_differ(cluster: Mapping[str, Any]) -> None:
    tasks: dict[tuple[str, int], str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            host, _, port = address.rpartition(":")
            first = tasks.setdefault((host.lower(), int(port)), f"{job} {index}")
            if first != f"{job} {index}":
                raise ValueError(
                    "TF_CONFIG: each task must have its own address, got "
                    f"'{address}' for {first} and for {job} {index}"
                )


def _number(value: Any) -> int:
    """Returns a number that is given as an integer or as text; -1 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # Python refuses to convert thousands of digits.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 100:
        return int(value)
    return -1


def _checked_task(config: Mapping[str, Any], cluster: dict[str, list[str]]) -> TaskConfig:
    task = config.get("task")
    if not isinstance(task, Mapping) or not isinstance(task.get("type"), str):
        raise ValueError(
            f"TF_CONFIG: 'task' must be an object with 'type' and 'index', got {task!r}"
        )
    job, index = task["type"], task.get("index")
    if job == EVALUATOR_JOB and job not in cluster:
        return TaskConfig(cluster, job, 0)
    number = 0 if index is None and len(cluster.get(job, [])) == 1 else _number(index)
    if job not in cluster:
        raise ValueError(
            f"TF_CONFIG: the task is of job '{job}', which is not in the cluster of jobs "
            f"{sorted(cluster)}"
        )
    if not 0 <= number < len(cluster[job]):
        raise ValueError(
            f"TF_CONFIG: the index of a task of job '{job}' must be from 0 to "
            f"{len(cluster[job]) - 1}, got {index!r}"
        )
    return TaskConfig(cluster, job, number)
