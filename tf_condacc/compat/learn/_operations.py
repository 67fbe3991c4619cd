"""The operations that the ways to run an Experiment consist of."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.compat import v1

from tf_condacc.compat._estimator import estimator_module
from tf_condacc.compat.learn._estimator import Estimator, core_of, evaluated_with
from tf_condacc.compat.learn._evaluations import Metrics
from tf_condacc.compat.learn._exports import ExportStrategy
from tf_condacc.estimator._training import evaluated_by_caller

# A worker waits for this many global steps times the logarithm of its number: 5500 for the second.
_WAITED_STEPS = 8000.0


@dataclasses.dataclass
class Operations:
    """Trains, evaluates and exports an Estimator with its inputs.

    Attributes:
        estimator: A ``tf.estimator.Estimator`` or a `learn.Estimator`.
        train_input_fn: The function that returns the input of training.
        eval_input_fn: The function that returns the input of evaluations.
        metrics: The metrics that are added to those of the model, or None.
        train_steps: Global step at which training ends, or None.
        eval_steps: Number of batches of an evaluation, or None for all.
        train_hooks: Hooks of training.
        eval_hooks: Hooks of evaluations.
        saving_listeners: ``tf.compat.v1.train.CheckpointSaverListener`` objects.
        export_strategies: The export strategies.
    """

    estimator: Any
    train_input_fn: Callable[[], Any]
    eval_input_fn: Callable[[], Any]
    metrics: Mapping[Any, Any] | None
    train_steps: int | None
    eval_steps: int | None
    train_hooks: list[v1.train.SessionRunHook]
    eval_hooks: list[v1.train.SessionRunHook]
    saving_listeners: list[v1.train.CheckpointSaverListener]
    export_strategies: tuple[ExportStrategy, ...]

    def train_alone(
        self, *, hooks: Sequence[Any] = (), listeners: Sequence[Any] = (), **steps: int | None
    ) -> None:
        """Trains in this process.

        Args:
            hooks: Further hooks.
            listeners: Further listeners.
            **steps: The argument `steps` or `max_steps` of an Estimator.
        """
        core_of(self.estimator).train(
            self.train_input_fn,
            hooks=[*self.train_hooks, *hooks],
            saving_listeners=[*self.saving_listeners, *listeners],
            **steps,
        )

    def train(
        self,
        hooks: Sequence[Any] = (),
        listeners: Sequence[Any] = (),
        throttle_secs: float = 0,
        waits_for_steps: bool = False,
        evaluates: bool = False,
    ) -> None:
        """Trains in this process, or as a task of the cluster, up to the last step.

        Args:
            hooks: Further hooks.
            listeners: Further listeners.
            throttle_secs: Seconds from one evaluation of a master to the next, at least.
            waits_for_steps: Whether a worker that is not the chief waits for global steps.
            evaluates: Whether the caller lets the chief evaluate.
        """
        config = self.estimator.config
        if not config.cluster_spec:
            self.train_alone(hooks=hooks, listeners=listeners, max_steps=self.train_steps)
            return
        hooks = [*self.train_hooks, *hooks]
        if waits_for_steps and not config.is_chief:
            steps = int(_WAITED_STEPS * math.log(config.task_id + 1))
            hooks.append(v1.train.GlobalStepWaiterHook(steps))
        core = estimator_module()
        train_spec = core.TrainSpec(
            self.train_input_fn, self.train_steps, hooks, [*self.saving_listeners, *listeners]
        )
        eval_spec = core.EvalSpec(
            self.eval_input_fn,
            self.eval_steps,
            hooks=self.eval_hooks,
            throttle_secs=throttle_secs,
        )
        evaluated = evaluated_by_caller() if evaluates else contextlib.nullcontext()
        with evaluated_with(self.estimator, self.metrics), evaluated:
            core.train_and_evaluate(core_of(self.estimator), train_spec, eval_spec)

    def evaluate(self, name: str | None = None, **arguments: Any) -> Metrics:
        """Evaluates a checkpoint, by default the latest one.

        Args:
            name: Name of the evaluation, for the folder of its summaries.
            **arguments: Other arguments of the Estimator than the usual ones.
        """
        usual: dict[str, Any] = {
            "input_fn": self.eval_input_fn,
            "steps": self.eval_steps,
            "hooks": self.eval_hooks,
        }
        if self.metrics is not None:
            usual["metrics"] = self.metrics
        return self.estimator.evaluate(name=name, **(usual | arguments))

    def evaluate_and_export(
        self, name: str | None = None, checkpoint_path: str | None = None
    ) -> tuple[Metrics, list[Any]]:
        """Evaluates and exports a checkpoint, by default the latest one.

        Args:
            name: Name of the evaluation, for the folder of its summaries.
            checkpoint_path: Path of the checkpoint, or None.

        Returns:
            The result of the evaluation, and those of the export strategies.
        """
        metrics = self.evaluate(name, checkpoint_path=checkpoint_path)
        return metrics, self.export(metrics, checkpoint_path)

    def export(self, metrics: Metrics, checkpoint_path: str | None = None) -> list[Any]:
        """Exports a checkpoint by each strategy, and returns the results of these.

        Args:
            metrics: Result of the evaluation of the checkpoint.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.
        """
        base = os.path.join(self.estimator.model_dir, "export")
        return [
            strategy.export(
                self.estimator,
                os.path.join(base, strategy.name),
                checkpoint_path=checkpoint_path,
                eval_result=metrics,
            )
            for strategy in self.export_strategies
        ]


def check_estimator(estimator: Any, metrics: Any, listeners: Any) -> None:
    """Raises ValueError if an Estimator is of another type, or takes no metrics or listeners."""
    if isinstance(estimator, Estimator):
        if listeners is not None:
            raise ValueError(
                "`saving_listeners` must be `None` with `tf.contrib.learn.Estimator`; got "
                f"{listeners!r}."
            )
    elif not isinstance(estimator, estimator_module().Estimator):
        raise ValueError(
            "`estimator` must be a `tf.estimator.Estimator` or a `tf.contrib.learn.Estimator`; got "
            f"{type(estimator)}."
        )
    elif metrics is not None:
        raise ValueError(
            "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use `eval_metric_ops` in "
            f"`tf.estimator.EstimatorSpec` instead; got {metrics!r}."
        )
