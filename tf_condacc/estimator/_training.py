"""Training with evaluations, in one process or on a cluster.

Mirrors ``tf.estimator.train_and_evaluate``.
"""

from __future__ import annotations

import logging
from typing import Any

from condacc.tf_config import EVALUATOR_JOB
from tf_condacc import cluster
from tf_condacc.estimator import _current_task, _sessions
from tf_condacc.estimator._estimator import Estimator
from tf_condacc.estimator._evaluations import EvaluatingListener, Evaluations
from tf_condacc.estimator._train_specs import EvalSpec, TrainSpec

_LOG = logging.getLogger("tf_condacc")
# An evaluator is usually not a part of the cluster, so the chief cannot know whether there is one.
_NO_EVALUATION = (
    "train_and_evaluate: this chief only trains. Nothing is evaluated or exported unless a task of "
    'type "evaluator" runs as well, or the chief is of type "master" in TF_CONFIG.'
)


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any] | None] | None:
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
    evaluations = Evaluations(estimator, eval_spec, train_spec.max_steps)
    if config.task_type == "evaluator":
        evaluations.run_until_training_ends()
        return None
    listener = EvaluatingListener(evaluations, eval_spec.throttle_secs)
    if not config.cluster_spec:
        _train(estimator, train_spec, listener)
        return evaluations.last[:2] if evaluations.last else (None, None)
    with (
        cluster.start(session_config=_sessions.session_config(config)) as task,
        _current_task.as_current(task),
    ):
        if config.task_type == "master":
            _train(estimator, train_spec, listener)
        else:
            if config.is_chief and EVALUATOR_JOB not in task.cluster_spec.jobs:
                _LOG.warning(_NO_EVALUATION)
            _train(estimator, train_spec)
    return None


def _train(estimator: Estimator, spec: TrainSpec, *listeners: EvaluatingListener) -> None:
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
