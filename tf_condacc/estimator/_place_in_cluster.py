"""What ``TF_CONFIG`` tells a RunConfig."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from condacc import tf_config
from condacc.tf_config import EVALUATOR_JOB, PS_JOB


class PlaceInCluster(NamedTuple):
    """The place of this process in its cluster, in the terms of a RunConfig.

    An evaluator is not a part of the cluster, so it sees an empty one.

    Attributes:
        cluster: Addresses of the tasks of each job.
        task_type: Job of this task.
        task_id: Number of this task in its job.
        is_chief: Whether this task is the chief.
        num_workers: Number of tasks that train.
        global_id: Number of this task among all tasks; None in an evaluator.
        master: Target for sessions that train.
        model_dir: Folder of checkpoints, or None.
        service: The entry "service".
    """

    cluster: dict[str, list[str]]
    task_type: str
    task_id: int
    is_chief: bool
    num_workers: int
    global_id: int | None
    master: str
    model_dir: str | None
    service: Any

    @classmethod
    def read(cls) -> PlaceInCluster:
        """Reads the environment variable.

        Raises:
            ValueError: It does not describe a cluster and a task of it.
        """
        config = tf_config.read(None)
        entries = json.loads(os.environ.get("TF_CONFIG") or "{}")
        model_dir, service = entries.get("model_dir"), entries.get("service")
        if not config.cluster:
            job = (entries.get("task") or {}).get("type", "worker")
            if job != "worker":
                raise ValueError(
                    f'If "cluster" is not set in TF_CONFIG, task type must be WORKER; got {job!r}.'
                )
            return cls({}, "worker", 0, True, 1, 0, "", model_dir, service)
        job, task = config.task_type, config.task_id
        if job == EVALUATOR_JOB:
            return cls({}, job, task, False, 0, None, "", model_dir, service)
        tasks = _in_order(config)
        return cls(
            cluster=config.cluster,
            task_type=job,
            task_id=task,
            is_chief=(job, task) == config.chief,
            num_workers=len(config.workers),
            global_id=tasks.index((job, task)),
            master=f"grpc://{config.cluster[job][task]}" if len(tasks) > 1 else "",
            model_dir=model_dir,
            service=service,
        )


def _in_order(config: tf_config.TaskConfig) -> list[tuple[str, int]]:
    """Returns all tasks: those of the chief's job, of others by their names, parameter servers."""
    jobs = sorted(config.cluster, key=lambda job: (job != config.chief[0], job == PS_JOB, job))
    return [(job, task) for job in jobs for task in range(len(config.cluster[job]))]
