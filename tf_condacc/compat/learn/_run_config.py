"""The configuration of an Estimator. Mirrors ``tf.contrib.learn.RunConfig``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from condacc import tf_config
from tf_condacc.compat._estimator import estimator_module

# The default of `save_checkpoints_secs`, which the original takes for "not given" as well.
_NOT_GIVEN = 0
_DEFAULT_SECS = 600
# The properties that a program may change between `learn_runner.run` and its Estimator.
_CHANGEABLE = (
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
)
_CoreRunConfig: Any = estimator_module().RunConfig


class Environment:
    """The values of "environment" in ``TF_CONFIG``. Mirrors the class of tf.contrib.learn."""

    CLOUD = "cloud"
    GOOGLE = "google"
    LOCAL = "local"


class TaskType:
    """The jobs of a cluster. Mirrors the class of tf.contrib.learn."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


class RunConfig(_CoreRunConfig):
    """The configuration of an Estimator. Mirrors ``tf.contrib.learn.RunConfig``.

    It is a ``tf.estimator.RunConfig`` with other arguments. `cluster_spec`, `task_type`, `task_id`,
    `is_chief` and the like are those of ``TF_CONFIG``, whatever "environment" says there.

    Args:
        master: None or "". Sessions run in this process, or on the cluster of ``TF_CONFIG``.
        num_cores: Number of threads in `tf_config`; 0 lets TensorFlow choose.
        log_device_placement: Whether `tf_config` logs the devices of operations.
        gpu_memory_fraction: Fraction of the memory of each GPU in `tf_config`.
        tf_random_seed: Random seed of the graph; None for a random one.
        save_summary_steps: Number of steps between two summaries.
        save_checkpoints_secs: Number of seconds between two checkpoints. By default, or if 0, it is
            600 if `save_checkpoints_steps` is not given. If both are None, none are saved.
        save_checkpoints_steps: Number of steps between two checkpoints, or None.
        keep_checkpoint_max: Number of checkpoints to keep; None or 0 to keep all.
        keep_checkpoint_every_n_hours: One checkpoint of each such period is also kept.
        log_step_count_steps: Number of steps between two log messages with the speed.
        protocol: None or "grpc".
        evaluation_master: "". Evaluations run in this process.
        model_dir: Folder of checkpoints and summaries. By default that of ``TF_CONFIG``, if any.
        session_config: The ``tf.compat.v1.ConfigProto`` of sessions, and of the cluster's servers.
            By default soft placement is on. `tf_config` does not change it, as in the original.
        session_creation_timeout_secs: Seconds that a worker waits for the chief.

    Attributes:
        environment: The entry "environment" of ``TF_CONFIG``. It has no effect.
        tf_config: The ``tf.compat.v1.ConfigProto`` of the first arguments.

    Raises:
        ValueError: `master` or `evaluation_master` names a server, or another value is not valid,
            or ``TF_CONFIG`` does not describe a cluster and a task of it.
    """

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: int | None = _NOT_GIVEN,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: str | None = None,
        session_config: v1.ConfigProto | None = None,
        session_creation_timeout_secs: float = 7200,
    ) -> None:
        if save_checkpoints_secs == _NOT_GIVEN:
            save_checkpoints_secs = _DEFAULT_SECS if save_checkpoints_steps is None else None
        super().__init__(
            model_dir=model_dir or None,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )
        self.environment: str = tf_config.entries().get("environment", Environment.LOCAL)
        self.tf_config = v1.ConfigProto(
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            gpu_options=v1.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
        )
        for name, given in (("master", master), ("evaluation_master", evaluation_master)):
            if given and given != getattr(self, name):
                raise ValueError(
                    f"RunConfig: {name} is not supported; got {given!r}, expected {None!r} or ''. "
                    "Sessions run in this process, or on the cluster that TF_CONFIG describes, as "
                    "condacc launch sets it."
                )

    @property
    def task_type(self) -> str | None:
        """Job of this task; None if ``TF_CONFIG`` does not say one."""
        return super().task_type if tf_config.entries().get("task") else None

    @property
    def num_worker_replicas(self) -> int:
        """Number of tasks that train, the chief included; 0 without a cluster."""
        return super().num_worker_replicas if self.cluster_spec else 0

    @staticmethod
    def get_task_id() -> int:
        """Returns the index of the task in ``TF_CONFIG``, or 0."""
        return int((tf_config.entries().get("task") or {}).get("index") or 0)

    def uid(self, whitelist: Collection[str] | None = None) -> str:
        """Returns a text that is equal for equal configurations in one process.

        Args:
            whitelist: Names of properties that do not count. By default those that a program may
                change, such as the intervals between checkpoints.
        """
        ignored = _CHANGEABLE if whitelist is None else whitelist
        values = {name.lstrip("_"): value for name, value in vars(self).items()}
        return ", ".join(
            f"{name}={_plain(value)!r}"
            for name, value in sorted(values.items())
            if name not in ignored
        )


def _plain(value: Any) -> Any:
    """Returns the jobs of a ClusterSpec, whose repr has its memory address; else the value."""
    is_cluster = isinstance(value, tf.train.ClusterSpec)
    return sorted(value.as_dict().items()) if is_cluster else value
