"""The task of a cluster in which an Estimator trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from tf_condacc.cluster import Task
from tf_condacc.estimator._run_config import RunConfig

_CURRENT: ContextVar[Task | None] = ContextVar("tf_condacc_estimator_task", default=None)


@contextlib.contextmanager
def as_current(task: Task) -> Iterator[None]:
    """Returns a context in which Estimators train in a task."""
    token = _CURRENT.set(task)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def for_training(config: RunConfig) -> Task | None:
    """Returns the task to train in; None if the process is alone.

    Raises:
        RuntimeError: ``TF_CONFIG`` describes a cluster, and there is no task of it.
    """
    task = _CURRENT.get()
    if task is None and config.master:
        raise RuntimeError(
            f"TF_CONFIG describes a cluster, and this process is {config.task_type} "
            f"{config.task_id} of it. Estimator.train alone would train a model of its own in each "
            "process; tf.estimator.train_and_evaluate trains one model on the cluster."
        )
    return task
