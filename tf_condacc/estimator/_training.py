"""Training with evaluations, in one process or on a cluster.

Mirrors ``tf.estimator.train_and_evaluate``.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, NamedTuple

from tensorflow.compat import v1

from condacc.tf_config import EVALUATOR_JOB
from tf_condacc import cluster
from tf_condacc.estimator import _sessions
from tf_condacc.estimator._estimator import Estimator, in_task
from tf_condacc.estimator._train_specs import EvalSpec, TrainSpec

_LOG = logging.getLogger("tf_condacc")
_POLL_SECS = 1
# An evaluator is usually not a part of the cluster, so the chief cannot know whether there is one.
_NO_EVALUATION = (
    "train_and_evaluate: this chief only trains. Nothing is evaluated or exported unless a task of "
    'type "evaluator" runs as well, or the chief is of type "master" in TF_CONFIG.'
)


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[str | None] | None] | None:
    """Trains, evaluates and exports a model.

    Mirrors ``tf.estimator.train_and_evaluate``. Without a cluster in ``TF_CONFIG``, each new
    checkpoint is evaluated and exported while the training waits, unless the last evaluation is
    less than `throttle_secs` ago; the last checkpoint is evaluated in any case.

    On a cluster, which `tf_condacc.cluster.start` joins, each task does its part, and all tasks
    share the folder of the Estimator:

    - The chief and the workers train. A task of type "master" is a chief that also evaluates, as
      without a cluster.
    - A parameter server serves until the training has ended, and then ends the process.
    - An evaluator evaluates and exports new checkpoints until one is of step `max_steps`. Without
      `max_steps` it never ends. If no task is an evaluator or a master, nothing is evaluated or
      exported; another chief logs a warning that says so.

    Args:
        estimator: The Estimator.
        train_spec: How to train.
        eval_spec: How to evaluate and export.

    Returns:
        Without a cluster, the metrics of the last evaluation and what the exporters returned
        then, or a pair of None if `max_steps` had been reached before. None on a cluster.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No checkpoints are saved, so there is nothing to evaluate.
    """
    _check(estimator, train_spec, eval_spec)
    config = estimator.config
    evaluations = _Evaluations(estimator, eval_spec, train_spec.max_steps)
    if config.task_type == "evaluator":
        evaluations.run_until_training_ends()
        return None
    listener = _EvaluatingListener(evaluations, eval_spec.throttle_secs)
    if not config.cluster_spec:
        _train(estimator, train_spec, listener)
        return evaluations.last[:2] if evaluations.last else (None, None)
    with (
        cluster.start(session_config=_sessions.session_config(config)) as task,
        in_task(task),
    ):
        if config.task_type == "master":
            _train(estimator, train_spec, listener)
        else:
            if config.is_chief and EVALUATOR_JOB not in task.cluster_spec.jobs:
                _LOG.warning(_NO_EVALUATION)
            _train(estimator, train_spec)
    return None


class _Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        metrics: What `Estimator.evaluate` returned.
        exports: What the exporters returned.
        is_last: Whether the training has come to its last step.
    """

    metrics: dict[str, Any]
    exports: list[str | None]
    is_last: bool


class _Evaluations:
    """Evaluates and exports the latest checkpoint of an Estimator, each checkpoint once.

    Args:
        estimator: The Estimator.
        spec: How to evaluate and export.
        max_steps: Global step at which training ends, or None.

    Attributes:
        last: The last result, or None.
    """

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._evaluated: str | None = None
        self.last: _Result | None = None

    def run(self) -> _Result | None:
        """Returns the result for the latest checkpoint; None if there is no new one."""
        checkpoint = self._estimator.latest_checkpoint()
        if checkpoint is None or checkpoint == self._evaluated:
            return None
        metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=checkpoint,
            hooks=self._spec.hooks,
        )
        is_last = bool(self._max_steps and metrics[v1.GraphKeys.GLOBAL_STEP] >= self._max_steps)
        exports = [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
                checkpoint_path=checkpoint,
                eval_result=metrics,
                is_the_final_export=is_last,
            )
            for exporter in self._spec.exporters
        ]
        self._evaluated = checkpoint
        self.last = _Result(metrics, exports, is_last)
        return self.last

    def run_until_training_ends(self) -> None:
        """Evaluates each new checkpoint, until one is of the last step of the training."""
        time.sleep(self._spec.start_delay_secs)
        warned = False
        while True:
            begin = time.monotonic()
            result = self.run()
            if result is not None and result.is_last:
                return
            if result is None and not warned:
                _LOG.warning(
                    "There is no new checkpoint to evaluate in %s.", self._estimator.model_dir
                )
            warned = result is None
            rest = begin + self._spec.throttle_secs - time.monotonic()
            time.sleep(max(rest, 0 if result else _POLL_SECS))


class _EvaluatingListener(v1.train.CheckpointSaverListener):
    """Evaluates checkpoints as they are saved, and the last one at the end of training.

    The checkpoint that is saved before the first step is not evaluated.

    Args:
        evaluations: The evaluations.
        throttle_secs: Seconds from one evaluation to the next, at least.
    """

    def __init__(self, evaluations: _Evaluations, throttle_secs: float) -> None:
        self._evaluations, self._throttle_secs = evaluations, throttle_secs
        self._is_first = True
        self._last: float | None = None

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates the checkpoint, unless the last evaluation was too short a time ago."""
        if self._is_first:
            self._is_first = False
            return
        now = time.monotonic()
        if self._last is None or now >= self._last + self._throttle_secs:
            self._last = now
            self._evaluations.run()

    def end(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates the last checkpoint, if that has not been done."""
        self._evaluations.run()


def _train(estimator: Estimator, spec: TrainSpec, *listeners: _EvaluatingListener) -> None:
    estimator.train(
        input_fn=spec.input_fn,
        max_steps=spec.max_steps,
        hooks=list(spec.hooks),
        saving_listeners=[*spec.saving_listeners, *listeners],
    )


def _check(estimator: Any, train_spec: Any, eval_spec: Any) -> None:
    for name, value, kind in (
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
        ("eval_spec", eval_spec, EvalSpec),
    ):
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must have type `tf.estimator.{kind.__name__}`. Got: {type(value)}"
            )
