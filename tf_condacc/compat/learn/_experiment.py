"""An Estimator with its inputs, and ways to run them. Mirrors ``tf.contrib.learn.Experiment``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.compat.learn._evaluations import (
    EvaluatingHook,
    ExportingListener,
    Metrics,
    Predicate,
    checked_predicate,
    evaluate_new_checkpoints,
)
from tf_condacc.compat.learn._exports import ExportStrategy
from tf_condacc.compat.learn._operations import Operations, check_estimator

_STEPS_PER_ITERATION = 1000
# Each checkpoint of a model on Google Cloud Storage costs requests.
_GCS_EVAL_FREQUENCY = 1000


class Experiment:
    """An Estimator with its inputs, and ways to run them.

    Mirrors ``tf.contrib.learn.Experiment``. On a cluster, the tasks train by
    ``tf.estimator.train_and_evaluate``, which starts their servers. The arguments
    `estimator`, `eval_metrics`, `train_steps` and `eval_steps` are attributes, which cannot be set;
    `continuous_eval_throttle_secs` can be.

    Args:
        estimator: A ``tf.estimator.Estimator``, or an `Estimator` of this module.
        train_input_fn: Function that returns the input of training.
        eval_input_fn: Function that returns the input of evaluations.
        eval_metrics: `MetricSpec` objects by their names, for an `Estimator` of this module.
        train_steps: Global step at which training ends; None to train until the input ends.
        eval_steps: Number of batches to evaluate; None for all.
        train_monitors: ``tf.compat.v1.train.SessionRunHook`` objects of training.
        eval_hooks: ``tf.compat.v1.train.SessionRunHook`` objects of evaluations.
        local_eval_frequency: As `min_eval_frequency`, for `local_run`; None is 0.
        eval_delay_secs: Seconds that `evaluate` and `continuous_eval` wait first.
        continuous_eval_throttle_secs: Seconds from the beginning of one evaluation of
            `continuous_eval` to that of the next, at least.
        min_eval_frequency: Number of steps after which `train_and_evaluate` looks for a new
            checkpoint to evaluate; 0 to evaluate only after the training. The default is 1, or 1000
            if the model is on Google Cloud Storage.
        delay_workers_by_global_step: Whether the workers of a cluster wait for global steps before
            they train.
        export_strategies: An `ExportStrategy`, or several, which export the model after
            evaluations.
        train_steps_per_iteration: Number of steps between two evaluations of
            `continuous_train_and_eval`.
        checkpoint_and_export: Whether `train_and_evaluate` evaluates and exports each checkpoint.
        saving_listeners: ``tf.compat.v1.train.CheckpointSaverListener`` objects, for a
            ``tf.estimator.Estimator``.
        check_interval_secs: Seconds from one look for a new checkpoint of `train_and_evaluate` to
            the next, at least; None for no such limit.

    Raises:
        ValueError: `estimator` is of another type, it does not take `eval_metrics` or
            `saving_listeners`, `export_strategies` are of another type, or
            `train_steps_per_iteration` is not an integer.
    """

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[[], Any],
        eval_input_fn: Callable[[], Any],
        eval_metrics: Mapping[Any, Any] | None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Sequence[v1.train.SessionRunHook] | None = None,
        eval_hooks: Sequence[v1.train.SessionRunHook] | None = None,
        local_eval_frequency: int | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: ExportStrategy | Iterable[ExportStrategy] | None = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Sequence[v1.train.CheckpointSaverListener] | None = None,
        check_interval_secs: float | None = 5,
    ) -> None:
        if not isinstance(train_steps_per_iteration, int | None):
            raise ValueError(
                "`train_steps_per_iteration` must be an integer; got "
                f"{train_steps_per_iteration!r}."
            )
        check_estimator(estimator, eval_metrics, saving_listeners)
        self.continuous_eval_throttle_secs = continuous_eval_throttle_secs
        self._operations = Operations(
            estimator,
            train_input_fn,
            eval_input_fn,
            eval_metrics,
            train_steps,
            eval_steps,
            list(train_monitors or ()),
            list(eval_hooks or ()),
            list(saving_listeners or ()),
            _checked_strategies(export_strategies),
        )
        every = _GCS_EVAL_FREQUENCY if str(estimator.model_dir).startswith("gs://") else 1
        self._min_eval_frequency = every if min_eval_frequency is None else min_eval_frequency
        self._local_eval_frequency = local_eval_frequency or 0
        self._eval_delay_secs = eval_delay_secs
        self._delay_workers_by_global_step = delay_workers_by_global_step
        self._train_steps_per_iteration = train_steps_per_iteration
        self._checkpoint_and_export = checkpoint_and_export
        self._check_interval_secs = check_interval_secs or 0

    estimator = property(lambda self: self._operations.estimator, doc="The argument of this name.")
    eval_metrics = property(lambda self: self._operations.metrics, doc="The argument of this name.")
    train_steps = property(
        lambda self: self._operations.train_steps, doc="The argument of this name."
    )
    eval_steps = property(
        lambda self: self._operations.eval_steps, doc="The argument of this name."
    )

    def extend_train_hooks(self, additional_hooks: Iterable[v1.train.SessionRunHook]) -> None:
        """Adds hooks to those of training."""
        self._operations.train_hooks.extend(additional_hooks)

    def reset_export_strategies(
        self, new_export_strategies: ExportStrategy | Iterable[ExportStrategy] | None = None
    ) -> tuple[ExportStrategy, ...]:
        """Replaces the export strategies, and returns the former ones."""
        new = _checked_strategies(new_export_strategies)
        before, self._operations.export_strategies = self._operations.export_strategies, new
        return before

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains up to the global step `train_steps`, and returns the Estimator.

        On a cluster, a parameter server serves until the training has ended.

        Args:
            delay_secs: Seconds to wait first. By default none.
        """
        time.sleep(delay_secs or 0)
        self._operations.train(waits_for_steps=self._delay_workers_by_global_step)
        return self.estimator

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Metrics:
        """Evaluates the latest checkpoint.

        Without a checkpoint, a ``tf.estimator.Estimator`` evaluates an initialized model.

        Args:
            delay_secs: Seconds to wait first. By default `eval_delay_secs`.
            name: Name of the evaluation, for the folder of its summaries; "one_pass" by default.

        Returns:
            A dictionary with the values of the metrics, "loss" and "global_step".

        Raises:
            NotFittedError: There is no checkpoint, and the Estimator is one of this module.
        """
        time.sleep(self._eval_delay_secs if delay_secs is None else delay_secs)
        return self._operations.evaluate(name or "one_pass")

    def train_and_evaluate(self) -> tuple[Metrics | None, list[Any] | None] | None:
        """Trains, and evaluates each new checkpoint and the last one.

        The model is exported after the last evaluation, or with `checkpoint_and_export` after each.

        On a cluster each task does its part. The chief, which is worker 0 unless a task is called
        "chief" or "master", evaluates; other workers only train; an evaluator runs
        `continuous_eval`.

        Returns:
            The result of the last evaluation, and what the export strategies returned then. None in
            a task of a cluster that is not the chief.
        """
        config = self.estimator.config
        if config.task_type == "evaluator":
            self.continuous_eval()
            return None
        folder, secs = self.estimator.model_dir, self._check_interval_secs
        if self._checkpoint_and_export and (
            config.save_checkpoints_secs or config.save_checkpoints_steps
        ):
            listener = ExportingListener(
                lambda path: self._operations.evaluate_and_export("intermediate_export", path),
                folder,
            )
            self._operations.train(listeners=[listener], throttle_secs=secs, evaluates=True)
            return listener.result if config.is_chief else None
        hooks = []
        evaluates_itself = config.cluster_spec and config.task_type == "master"
        if self._min_eval_frequency and config.is_chief and not evaluates_itself:
            every = self._min_eval_frequency
            hooks.append(EvaluatingHook(self._operations.evaluate, folder, every, secs))
        self._operations.train(hooks, throttle_secs=secs, evaluates=True)
        return self._operations.evaluate_and_export() if config.is_chief else None

    def local_run(self) -> tuple[Metrics | None, list[Any] | None] | None:
        """Trains and evaluates, as `train_and_evaluate` does with `local_eval_frequency`."""
        before, self._min_eval_frequency = self._min_eval_frequency, self._local_eval_frequency
        try:
            return self.train_and_evaluate()
        finally:
            self._min_eval_frequency = before

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        evaluate_checkpoint_only_once: bool = True,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous",
    ) -> None:
        """Evaluates and exports new checkpoints, until one is of the step `train_steps`.

        Args:
            delay_secs: Seconds to wait first. By default `eval_delay_secs`.
            throttle_delay_secs: Seconds from one evaluation to the next, at least. By default
                `continuous_eval_throttle_secs`.
            evaluate_checkpoint_only_once: Whether to leave out checkpoints that were evaluated.
            continuous_eval_predicate_fn: Function of the last result, which is None at first and
                empty if there was no new checkpoint, and perhaps of `checkpoint_path`. It ends the
                evaluations by returning False.
            name: Name of the evaluations, for the folder of their summaries.

        Raises:
            ValueError: `continuous_eval_predicate_fn` is not a function.
        """
        self._evaluate_continuously(
            lambda path: self._operations.evaluate_and_export(name, path)[0],
            delay_secs,
            throttle_delay_secs,
            continuous_eval_predicate_fn,
            evaluate_checkpoint_only_once,
        )

    def continuous_eval_on_train_data(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous_on_train_data",
    ) -> None:
        """Evaluates new checkpoints on the input of training, as `continuous_eval` does."""
        self._evaluate_continuously(
            lambda path: self._operations.evaluate(
                name, checkpoint_path=path, input_fn=self._operations.train_input_fn
            ),
            delay_secs,
            throttle_delay_secs,
            continuous_eval_predicate_fn,
        )

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Predicate | None = None
    ) -> tuple[Metrics | None, list[Any] | None]:
        """Trains for `train_steps_per_iteration` steps and evaluates and exports, in turn.

        Args:
            continuous_eval_predicate_fn: See `continuous_eval`.

        Returns:
            The result of the last evaluation, and what the export strategies returned then.
        """
        goes_on = self._until_the_end(continuous_eval_predicate_fn)
        steps = self._train_steps_per_iteration
        if steps is None:
            steps = self.train_steps // 10 if self.train_steps else _STEPS_PER_ITERATION
        result: tuple[Metrics | None, list[Any] | None] = (None, None)
        path: str | None = None
        while goes_on(result[0], path):
            self._operations.train_alone(steps=max(1, steps))
            path = tf.train.latest_checkpoint(self.estimator.model_dir)
            result = self._operations.evaluate_and_export("one_pass", path)
        return result

    def run_std_server(self) -> None:
        """Serves as a parameter server until the training has ended.

        Raises:
            ValueError: This process is not a parameter server of a cluster.
        """
        config = self.estimator.config
        if config.task_type != "ps":
            raise ValueError(
                "Could not start server: this process is not a parameter server in TF_CONFIG, but "
                f"{config.task_type} {config.task_id} of the cluster {config.cluster_spec}."
            )
        self._operations.train()

    def test(self) -> Metrics:
        """Trains one step, evaluates one batch and exports, and returns the metrics."""
        self._operations.train_alone(steps=1)
        metrics = self._operations.evaluate("one_pass", steps=1)
        self._operations.export(metrics)
        return metrics

    def _evaluate_continuously(
        self,
        evaluate: Callable[[str], Metrics],
        delay_secs: float | None,
        throttle_secs: float | None,
        predicate: Predicate | None,
        only_once: bool = True,
    ) -> None:
        goes_on = self._until_the_end(predicate)
        time.sleep(self._eval_delay_secs if delay_secs is None else delay_secs)
        throttle_secs = (
            self.continuous_eval_throttle_secs if throttle_secs is None else throttle_secs
        )
        folder = self.estimator.model_dir
        evaluate_new_checkpoints(evaluate, folder, throttle_secs, goes_on, only_once)

    def _until_the_end(
        self, predicate: Predicate | None
    ) -> Callable[[Metrics | None, str | None], bool]:
        """Returns a predicate that is also false for a checkpoint of the last step."""
        goes_on = checked_predicate(predicate)

        def goes_on_before_the_end(metrics: Metrics | None, path: str | None) -> bool:
            step = (metrics or {}).get(v1.GraphKeys.GLOBAL_STEP)
            has_ended = step and self.train_steps and step >= self.train_steps
            return goes_on(metrics, path) and not has_ended

        return goes_on_before_the_end


def _checked_strategies(
    strategies: ExportStrategy | Iterable[ExportStrategy] | None,
) -> tuple[ExportStrategy, ...]:
    if isinstance(strategies, ExportStrategy):
        return (strategies,)
    found = tuple(strategies or ())
    for strategy in found:
        if not isinstance(strategy, ExportStrategy):
            raise ValueError(
                "`export_strategies` must be an ExportStrategy, an iterable of ExportStrategy, or "
                f"`None`, found {strategy}."
            )
    return found
