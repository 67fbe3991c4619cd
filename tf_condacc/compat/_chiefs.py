"""Clusters without a job "chief", for tensorflow_estimator, which asks for one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from condacc import tf_config

_READER = "_init_distributed_setting_from_environment_var"


def accept_first_workers(estimator: ModuleType) -> None:
    """Lets RunConfig of tensorflow_estimator accept a cluster whose chief is worker 0.

    ``condacc launch`` starts such clusters. The environment variable ``TF_CONFIG``
    stays as it is.

    Args:
        estimator: The API of tensorflow_estimator.
    """
    read = getattr(estimator.RunConfig, _READER)

    @functools.wraps(read)
    def reading(self: Any, config: Mapping[str, Any]) -> None:
        read(self, with_chief(config))

    setattr(estimator.RunConfig, _READER, reading)


def with_chief(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a value of ``TF_CONFIG`` in which the chief has a job of its own.

    Worker 0 becomes the only task of the job "chief", and worker n becomes worker n-1. The value is
    returned as it is if there is no cluster, or if the cluster has a chief or a master.

    Args:
        config: What ``TF_CONFIG`` contains.

    Raises:
        ValueError: It does not describe a cluster and a task of it.
    """
    if any(job in (config.get("cluster") or ()) for job in tf_config.CHIEF_JOBS):
        return config
    part = tf_config.read(config)
    if not part.cluster:
        return config
    cluster = dict(part.cluster)
    first, *others = cluster.pop("worker")
    cluster["chief"] = [first]
    if others:
        cluster["worker"] = others
    job, number = part.task_type, part.task_id
    if job == "worker":
        job, number = ("worker", number - 1) if number else ("chief", 0)
    return {**config, "cluster": cluster, "task": {"type": job, "index": number}}
