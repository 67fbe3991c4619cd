"""The sessions that run an Estimator's graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import SpecLike
from tf_condacc.cluster import Task
from tf_condacc.estimator._run_config import RunConfig


def scaffold_of(spec: SpecLike, config: RunConfig) -> v1.train.Scaffold:
    """Returns the spec's scaffold, and makes a saver as configured if there is none."""
    scaffold = spec.scaffold or v1.train.Scaffold()
    if scaffold.saver is None and not v1.get_collection(v1.GraphKeys.SAVERS):
        saver = v1.train.Saver(
            sharded=True,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            defer_build=True,
            save_relative_paths=True,
        )
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    return scaffold


def session_config(config: RunConfig) -> v1.ConfigProto:
    """Returns the configured ``ConfigProto``, or one with soft placement."""
    return config.session_config or v1.ConfigProto(allow_soft_placement=True)


def train(
    spec: SpecLike,
    config: RunConfig,
    model_dir: str,
    hooks: Sequence[v1.train.SessionRunHook],
    listeners: Sequence[v1.train.CheckpointSaverListener] | None,
    task: Task | None = None,
) -> None:
    """Trains until a hook stops the training or the input ends.

    Args:
        spec: The spec of the model in mode TRAIN.
        config: Configuration of the Estimator.
        model_dir: Folder of checkpoints and summaries.
        hooks: Hooks of the caller.
        listeners: Listeners of the hook that saves checkpoints, or None.
        task: The task of a cluster in which to train; None to train in this process alone. A task
            that is not the chief runs no hooks of the chief, and saves no checkpoints.

    Raises:
        ValueError: There are listeners, but no hook saves checkpoints as configured.
    """
    scaffold = scaffold_of(spec, config)
    hooks = [*hooks, *_watching_hooks(spec, config), *(spec.training_hooks or ())]
    chief_hooks = list(spec.training_chief_hooks or ())
    if config.log_step_count_steps:
        chief_hooks.append(_SpeedHook(config.log_step_count_steps, output_dir=model_dir))
    if task is None or task.is_chief:
        chief_hooks += _saving_hooks([*hooks, *chief_hooks], config, model_dir, scaffold, listeners)
    with _training_session(
        config,
        task,
        checkpoint_dir=model_dir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_hooks,
        save_checkpoint_secs=None,
        save_checkpoint_steps=None,
        save_summaries_steps=config.save_summary_steps,
        log_step_count_steps=None,
    ) as session:
        while not session.should_stop():
            session.run([spec.train_op, spec.loss])


def _training_session(
    config: RunConfig, task: Task | None, **arguments: Any
) -> v1.train.MonitoredSession:
    if task is None:
        return v1.train.MonitoredTrainingSession(config=session_config(config), **arguments)
    return task.session(max_wait_secs=config.session_creation_timeout_secs, **arguments)


def _watching_hooks(spec: SpecLike, config: RunConfig) -> list[v1.train.SessionRunHook]:
    """Returns hooks that stop the training at a loss of NaN, and log the loss."""
    hooks = [v1.train.NanTensorHook(spec.loss)]
    steps = config.log_step_count_steps
    if steps:
        shown = {"loss": spec.loss, "step": v1.train.get_global_step()}
        hooks.append(v1.train.LoggingTensorHook(shown, every_n_iter=steps))
    return hooks


def _saving_hooks(
    hooks: Sequence[v1.train.SessionRunHook],
    config: RunConfig,
    model_dir: str,
    scaffold: v1.train.Scaffold,
    listeners: Sequence[v1.train.CheckpointSaverListener] | None,
) -> list[v1.train.SessionRunHook]:
    """Returns the hook that saves checkpoints as configured, in a list.

    The list is empty if one of the existing hooks saves checkpoints, or none are to be saved.

    Raises:
        ValueError: There are listeners, but the list is empty.
    """
    secs, steps = config.save_checkpoints_secs, config.save_checkpoints_steps
    saved_by_others = any(isinstance(hook, v1.train.CheckpointSaverHook) for hook in hooks)
    if (secs or steps) and not saved_by_others:
        return [
            v1.train.CheckpointSaverHook(
                model_dir,
                save_secs=None if steps else secs,
                save_steps=steps or None,
                scaffold=scaffold,
                listeners=listeners,
                save_graph_def=config.checkpoint_save_graph_def,
            )
        ]
    if listeners:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
            "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs; a hook of your "
            "own gets its listeners when it is made."
        )
    return []


class _SpeedHook(v1.train.StepCounterHook):
    """Logs the number of steps per second, without warnings about a step that does not change.

    The step can be read before the training operation increments it. It then seems unchanged, and
    the base class would log a warning.
    """

    def after_run(self, run_context: Any, run_values: Any) -> None:
        super().after_run(run_context, run_values)
        self._last_global_step = None


def restored(
    spec: SpecLike,
    config: RunConfig,
    checkpoint: str | None,
    hooks: Sequence[v1.train.SessionRunHook],
) -> v1.train.MonitoredSession:
    """Returns a session with the variables of a checkpoint, or initialized ones without one."""
    creator = v1.train.ChiefSessionCreator(
        scaffold=scaffold_of(spec, config),
        config=session_config(config),
        checkpoint_filename_with_path=checkpoint,
    )
    return v1.train.MonitoredSession(session_creator=creator, hooks=list(hooks))


def evaluate(
    spec: SpecLike,
    config: RunConfig,
    checkpoint: str | None,
    steps: int | None,
    hooks: Sequence[v1.train.SessionRunHook],
) -> dict[str, Any]:
    """Evaluates the metrics and the loss, and returns their values and the global step.

    Args:
        spec: The spec of the model in mode EVAL.
        config: Configuration of the Estimator.
        checkpoint: Path of the checkpoint; None for freshly initialized variables.
        steps: Number of batches; None for all batches of the input.
        hooks: Hooks of the caller.

    Raises:
        ValueError: A metric is called "loss".
    """
    metrics = dict(spec.eval_metric_ops or {})
    if "loss" in metrics:
        raise ValueError(
            "Metric with name 'loss' is not allowed, because Estimator already defines a default "
            "metric with the same name."
        )
    metrics["loss"] = v1.metrics.mean(spec.loss)
    update = tf.group(*[update for _, update in metrics.values()])
    values = {name: value for name, (value, _) in metrics.items()}
    last = v1.train.FinalOpsHook({**values, "global_step": v1.train.get_global_step()})
    hooks = [*hooks, *(spec.evaluation_hooks or ()), last]
    with restored(spec, config, checkpoint, hooks) as session:
        done = 0
        while not session.should_stop() and (steps is None or done < steps):
            session.run(update)
            done += 1
    return last.final_ops_values


def write_summary(folder: str, values: Mapping[str, Any]) -> None:
    """Writes those of the values that are numbers as summaries.

    Args:
        folder: Folder of the summaries.
        values: Values by their names. "global_step" is the step of the summaries.
    """
    summary = v1.Summary()
    for name, value in sorted(values.items()):
        if name != "global_step" and np.ndim(value) == 0 and np.issubdtype(type(value), np.number):
            summary.value.add(tag=name, simple_value=float(value))
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(folder)
        writer.add_summary(summary, int(values["global_step"]))
        writer.close()
