"""The configuration of an Estimator.

Mirrors ``tf.estimator.RunConfig``.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_condacc.estimator import _config_checks
from tf_condacc.estimator._place_in_cluster import PlaceInCluster

# The default of the two intervals between checkpoints, of which at most one is set.
_DEFAULT: Any = _config_checks.DEFAULT


@dataclasses.dataclass
class RunConfig:
    """The configuration of an Estimator. Mirrors ``tf.estimator.RunConfig``.

    The attributes below are arguments of the constructor, too. They cannot be set later; `replace`
    returns a changed copy. A subclass may add others.

    Attributes:
        model_dir: Folder of checkpoints and summaries. By default that of ``TF_CONFIG``, if any.
        tf_random_seed: Random seed of the graph; None for a random one.
        save_summary_steps: Number of steps between two summaries.
        save_checkpoints_steps: Number of steps between two checkpoints; None to use
            `save_checkpoints_secs`.
        save_checkpoints_secs: Number of seconds between two checkpoints. The default is 600 if
            `save_checkpoints_steps` is not given. If both are None, no checkpoints are saved.
        session_config: The ``tf.compat.v1.ConfigProto`` of sessions. By default soft placement is
            on.
        keep_checkpoint_max: Number of checkpoints to keep; 0 to keep all.
        keep_checkpoint_every_n_hours: Additionally keeps one checkpoint for every so many hours.
        log_step_count_steps: Number of steps between two log messages with loss and speed; None
            for no messages.
        train_distribute: Must be None.
        device_fn: Function that returns the device of an operation `op` of training. By default,
            training on a cluster uses ``replica_device_setter`` of the `tf_condacc.cluster.Task`.
        protocol: None or "grpc".
        eval_distribute: Must be None.
        experimental_distribute: Must be None.
        experimental_max_worker_delay_secs: Has no effect: workers start without a delay.
        session_creation_timeout_secs: Seconds that a worker waits for the chief.
        checkpoint_save_graph_def: Whether to write the graph beside the checkpoints.

    Raises:
        ValueError: An attribute has a value that is not valid or not supported, or ``TF_CONFIG``
            does not describe a cluster and a task of it.
    """

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = _DEFAULT
    save_checkpoints_secs: int | None = _DEFAULT
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    train_distribute: Any = None
    device_fn: Callable[[tf.Operation], str] | None = None
    protocol: str | None = None
    eval_distribute: Any = None
    experimental_distribute: Any = None
    experimental_max_worker_delay_secs: int | None = None
    session_creation_timeout_secs: float = 7200
    checkpoint_save_graph_def: bool = True

    def __post_init__(self) -> None:
        steps, secs = _config_checks.intervals(
            self.save_checkpoints_steps, self.save_checkpoints_secs
        )
        self._set(save_checkpoints_steps=steps, save_checkpoints_secs=secs)
        self._place = PlaceInCluster.read()
        _config_checks.check(self)
        if self._place.model_dir is not None:
            given = model_dir_of(self, self._place.model_dir, "TF_CONFIG")
            self._set(model_dir=given)

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with other values of some attributes.

        If a number is given for one of the intervals between checkpoints, the other one becomes
        None.

        Raises:
            ValueError: An attribute is unknown, or a value is not valid or not supported.
        """
        names = [field.name for field in dataclasses.fields(RunConfig)]
        for name in changes:
            if name not in names:
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are {names}."
                )
        steps, secs = changes.get("save_checkpoints_steps"), changes.get("save_checkpoints_secs")
        if steps is not None or secs is not None:
            steps, secs = _config_checks.intervals(steps, secs)
            changes |= {"save_checkpoints_steps": steps, "save_checkpoints_secs": secs}
        replaced = copy.deepcopy(self)
        replaced._set(**changes)
        _config_checks.check(replaced)
        return replaced

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dataclass_fields__ and name in vars(self):
            raise AttributeError(f"{name} of a RunConfig cannot be set: use replace({name}=...).")
        super().__setattr__(name, value)

    def _set(self, **values: Any) -> None:
        vars(self).update(values)

    @property
    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The ``tf.train.ClusterSpec``; an empty one if the process is alone or evaluates."""
        return tf.train.ClusterSpec(self._place.cluster)

    @property
    def task_type(self) -> str:
        """Job of this task: "chief", "master", "worker", "ps" or "evaluator"."""
        return self._place.task_type

    @property
    def task_id(self) -> int:
        """Number of this task in its job."""
        return self._place.task_id

    @property
    def is_chief(self) -> bool:
        """Whether this task initializes variables and saves checkpoints."""
        return self._place.is_chief

    @property
    def master(self) -> str:
        """Target for sessions that train; "" if the process is alone."""
        return self._place.master

    @property
    def evaluation_master(self) -> str:
        """Target for sessions that evaluate."""
        return ""

    @property
    def num_ps_replicas(self) -> int:
        """Number of parameter servers."""
        return len(self._place.cluster.get("ps", []))

    @property
    def num_worker_replicas(self) -> int:
        """Number of tasks that train, the chief included; 0 in an evaluator."""
        return self._place.num_workers

    @property
    def global_id_in_cluster(self) -> int | None:
        """Number of this task among all tasks of the cluster; None in an evaluator."""
        return self._place.global_id

    @property
    def service(self) -> Any:
        """The entry "service" of ``TF_CONFIG``."""
        return self._place.service


def model_dir_of(
    config: RunConfig, model_dir: str | os.PathLike[str] | None, source: str = "constructor"
) -> str | None:
    """Returns a folder that is given beside that of a configuration; None if there is neither.

    Args:
        config: The configuration.
        model_dir: The folder, or None.
        source: Where the folder was given, for the error.

    Raises:
        ValueError: They differ.
    """
    given = [os.fspath(folder) for folder in (model_dir, config.model_dir) if folder]
    if len(set(given)) > 1:
        raise ValueError(
            f"`model_dir` are set both in {source} and `RunConfig`, but with different values. "
            f"In {source}: '{given[0]}', in `RunConfig`: '{given[1]}' "
        )
    return given[0] if given else None
