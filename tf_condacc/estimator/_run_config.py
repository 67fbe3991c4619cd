"""The configuration of an Estimator.

Mirrors ``tf.estimator.RunConfig``.
"""

from __future__ import annotations

import copy
import dataclasses
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from condacc import extras, tf_config
from condacc.tf_config import EVALUATOR_JOB, PS_JOB
from tf_condacc._model_fn import argument_names

# The default of the two intervals between checkpoints, of which at most one is set.
_DEFAULT: Any = object()
_DEFAULT_SECS = 600


@dataclasses.dataclass
class RunConfig:
    """The configuration of an Estimator. Mirrors ``tf.estimator.RunConfig``.

    The attributes below are also arguments of the constructor. They cannot be set later; `replace`
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
        keep_checkpoint_every_n_hours: One checkpoint of each period of this many hours is also
            kept.
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
    session_config: v1.ConfigProto | None = None
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
        steps, secs = _intervals(self.save_checkpoints_steps, self.save_checkpoints_secs)
        self._set(save_checkpoints_steps=steps, save_checkpoints_secs=secs)
        entries = tf_config.entries()
        self._task, self._service = _read_task(entries), entries.get("service")
        _check(self)
        if (model_dir := entries.get("model_dir")) is not None:
            self._set(model_dir=model_dir_of(self, model_dir, "TF_CONFIG"))

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
            steps, secs = _intervals(steps, secs)
            changes |= {"save_checkpoints_steps": steps, "save_checkpoints_secs": secs}
        replaced = copy.deepcopy(self)
        replaced._set(**changes)
        _check(replaced)
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
        return tf.train.ClusterSpec(self._task.cluster)

    @property
    def task_type(self) -> str:
        """Job of this task: "chief", "master", "worker", "ps" or "evaluator"."""
        return self._task.task_type

    @property
    def task_id(self) -> int:
        """Number of this task in its job."""
        return self._task.task_id

    @property
    def is_chief(self) -> bool:
        """Whether this task initializes variables and saves checkpoints."""
        return (self._task.task_type, self._task.task_id) == self._task.chief

    @property
    def master(self) -> str:
        """Target for sessions that train; "" if the process is alone."""
        if len(_in_order(self._task)) < 2:
            return ""
        return f"grpc://{self._task.cluster[self._task.task_type][self.task_id]}"

    @property
    def evaluation_master(self) -> str:
        """Target for sessions that evaluate."""
        return ""

    @property
    def num_ps_replicas(self) -> int:
        """Number of parameter servers."""
        return len(self._task.cluster.get(PS_JOB, []))

    @property
    def num_worker_replicas(self) -> int:
        """Number of tasks that train, the chief included; 0 in an evaluator."""
        return len(self._task.workers) or int(self.is_chief)

    @property
    def global_id_in_cluster(self) -> int | None:
        """Number of this task among all tasks of the cluster; None in an evaluator."""
        tasks = _in_order(self._task) or [self._task.chief]
        place = (self._task.task_type, self._task.task_id)
        return tasks.index(place) if place in tasks else None

    @property
    def service(self) -> Any:
        """The entry "service" of ``TF_CONFIG``."""
        return self._service


def model_dir_of(
    config: RunConfig, model_dir: str | os.PathLike[str] | None, source: str = "constructor"
) -> str | None:
    """Returns the folder of a configuration, or the one given beside it; None if there is neither.

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


def _read_task(entries: Mapping[str, Any]) -> tf_config.TaskConfig:
    """Returns the place of this process in its cluster.

    An evaluator is not a part of the cluster, so it sees an empty one.

    Raises:
        ValueError: `entries` of ``TF_CONFIG`` do not describe a cluster and a task of it.
    """
    task = tf_config.read(entries)
    job = (entries.get("task") or {}).get("type", "worker")
    if not task.cluster and job != "worker":
        raise ValueError(
            f'If "cluster" is not set in TF_CONFIG, task type must be WORKER; got {job!r}.'
        )
    return task._replace(cluster={}) if task.task_type == EVALUATOR_JOB else task


def _in_order(config: tf_config.TaskConfig) -> list[tuple[str, int]]:
    """Returns all tasks: the chief's job first, then jobs by name, parameter servers last."""
    jobs = sorted(config.cluster, key=lambda job: (job != config.chief[0], job == PS_JOB, job))
    return [(job, task) for job in jobs for task in range(len(config.cluster[job]))]


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and value >= 0


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


def _is_device_fn(value: Any) -> bool:
    return callable(value) and argument_names(value) == {"op"}


# For each attribute, a check of values other than None, and the requirement as errors state it.
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tf_random_seed": (_is_integer, "must be integer"),
    "save_summary_steps": (_is_count, "should be >= 0"),
    "save_checkpoints_steps": (_is_count, "should be >= 0"),
    "save_checkpoints_secs": (_is_count, "should be >= 0"),
    "session_config": (
        lambda value: isinstance(value, v1.ConfigProto),
        "must be instance of ConfigProto",
    ),
    "keep_checkpoint_max": (_is_count, "should be >= 0"),
    "keep_checkpoint_every_n_hours": (_is_positive, "should be > 0"),
    "log_step_count_steps": (_is_count, "should be >= 0"),
    "device_fn": (_is_device_fn, 'must be callable with exactly one argument "op"'),
    "protocol": (lambda value: value == "grpc", "should be grpc"),
    "experimental_max_worker_delay_secs": (_is_integer, "must be an integer if set"),
    "session_creation_timeout_secs": (_is_positive, "should be > 0"),
}
_STRATEGIES = ("train_distribute", "eval_distribute", "experimental_distribute")


def _check(config: Any) -> None:
    """Checks the attributes of a configuration.

    Raises:
        ValueError: The value of an attribute is not valid or not supported.
    """
    for name, (is_valid, expected) in _CHECKS.items():
        value = getattr(config, name)
        if value is not None and not is_valid(value):
            raise ValueError(f"{name} {expected}; got {value!r}.")
    if config.model_dir is not None and not config.model_dir:
        raise ValueError(f"model_dir should be non-empty; got {config.model_dir!r}.")
    for name in _STRATEGIES:
        if getattr(config, name) is not None:
            raise ValueError(
                f"{name} is not supported by the Estimator of tf_condacc; got "
                f"{getattr(config, name)!r}. Use replicate_model_fn for several devices, "
                "train_and_evaluate for a cluster, or the package tensorflow-estimator "
                f"({extras.INSTALL_ESTIMATOR})."
            )


def _intervals(steps: Any, secs: Any) -> tuple[Any, Any]:
    """Returns the numbers of steps and seconds between two checkpoints, of which one is None or 0.

    Args:
        steps: Number of steps, None or `_DEFAULT`.
        secs: Number of seconds, None or `_DEFAULT`.

    Raises:
        ValueError: Both are numbers above 0.
    """
    if steps is _DEFAULT and secs is _DEFAULT:
        return None, _DEFAULT_SECS
    steps, secs = (None if each is _DEFAULT else each for each in (steps, secs))
    if steps and secs:
        raise ValueError(
            "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set; got "
            f"{steps!r} and {secs!r}."
        )
    return steps, secs
