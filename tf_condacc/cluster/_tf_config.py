"""Reads and checks ``TF_CONFIG``, which tells a process its part in a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

CHIEF_JOBS = ("chief", "master")
PS_JOB = "ps"
EVALUATOR_JOB = "evaluator"


class TaskConfig(NamedTuple):
    """The part of one process in a cluster.

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
    """Returns the part of this process in its cluster.

    Args:
        config: The value of ``TF_CONFIG``, as text or as the object that it describes. None to read
            the environment variable; if that is not set, the process is alone.

    Raises:
        ValueError: The value does not describe a cluster and a task of it.
    """
    if config is None:
        config = os.environ.get("TF_CONFIG") or "{}"
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError as error:
            raise ValueError(f"TF_CONFIG is not valid JSON ({error}): {config!r}") from None
    if not isinstance(config, Mapping):
        raise ValueError(f"TF_CONFIG is expected to be a JSON object, got {config!r}")
    if not config.get("cluster"):
        return ALONE
    return _checked_task(config, _checked_cluster(config["cluster"]))


def _checked_cluster(cluster: Any) -> dict[str, list[str]]:
    if not isinstance(cluster, Mapping):
        raise ValueError(f"TF_CONFIG: 'cluster' is expected to be an object, got {cluster!r}")
    for job, addresses in cluster.items():
        is_list = isinstance(addresses, list | tuple) and len(addresses) > 0
        if not is_list or not all(_is_address(each) for each in addresses):
            raise ValueError(
                f"TF_CONFIG: job '{job}' is expected to be a list of addresses 'host:port', "
                f"got {addresses!r}"
            )
    result = {job: list(addresses) for job, addresses in cluster.items()}
    workers = TaskConfig(result, "", 0).workers
    if not workers:
        raise ValueError(f"TF_CONFIG: the cluster has no chief and no worker, got {cluster!r}")
    if sum(job in CHIEF_JOBS for job, _ in workers) > 1:
        raise ValueError(f"TF_CONFIG: the cluster is expected to have one chief, got {cluster!r}")
    if len(workers) > 1 and PS_JOB not in result:
        raise ValueError(
            f"TF_CONFIG: {len(workers)} tasks that train need a parameter server, on which they "
            f"share the variables; got {cluster!r}"
        )
    return result


def _is_address(address: Any) -> bool:
    return isinstance(address, str) and address.rpartition(":")[2].isdigit()


def _checked_task(config: Mapping[str, Any], cluster: dict[str, list[str]]) -> TaskConfig:
    task = config.get("task")
    if not isinstance(task, Mapping) or not isinstance(task.get("type"), str):
        raise ValueError(
            f"TF_CONFIG: 'task' is expected to be an object with 'type' and 'index', got {task!r}"
        )
    job, index = task["type"], task.get("index")
    if job == EVALUATOR_JOB and job not in cluster:
        return TaskConfig(cluster, job, 0)
    number = -1
    if index is None and len(cluster.get(job, [])) == 1:
        number = 0
    elif isinstance(index, int) and not isinstance(index, bool):
        number = index
    elif isinstance(index, str) and index.isdecimal():
        number = int(index)
    if job not in cluster:
        raise ValueError(
            f"TF_CONFIG: the task is of job '{job}', which is not in the cluster of jobs "
            f"{sorted(cluster)}"
        )
    if not 0 <= number < len(cluster[job]):
        raise ValueError(
            f"TF_CONFIG: the index of a task of job '{job}' is expected to be from 0 to "
            f"{len(cluster[job]) - 1}, got {index!r}"
        )
    return TaskConfig(cluster, job, number)
