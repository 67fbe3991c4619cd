"""Training with evaluations, in one process or on a cluster.

Mirrors ``tf.estimator.train_and_evaluate``, ``tf.estimator.TrainSpec`` and
``tf.estimator.EvalSpec``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from tensorflow.compat import v1

from condacc.tf_config import EVALUATOR_JOB
from tf_condacc import cluster
from tf_condacc._model_fn import checked_hooks
from tf_condacc.estimator import _input_pipelines, _sessions
from tf_condacc.estimator._estimator import Estimator, in_task

_LOG = logging.getLogger("tf_condacc")
_POLL_SECS = 1
_EVALUATED_BY_CALLER: ContextVar[bool] = ContextVar("tf_condacc_evaluated", default=False)
# An evaluator is usually not a part of the cluster, so the chief cannot know whether there is one.
_NO_EVALUATION = (
    "train_and_evaluate: this chief only trains. Nothing is evaluated unless a task of type "
    '"evaluator" runs as well, or the chief is of type "master" in TF_CONFIG.'
)


class _TrainFields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[v1.train.SessionRunHook, ...]
    saving_listeners: tuple[v1.train.CheckpointSaverListener, ...]


class TrainSpec(_TrainFields):
    """How to train. Mirrors ``tf.estimator.TrainSpec``.

    Args:
        input_fn: Function that returns the input; see `Estimator.train`.
        max_steps: Global step at which training ends; None to train until the input ends.
        hooks: ``tf.compat.v1.train.SessionRunHook`` objects of all tasks that train.
        saving_listeners: ``tf.compat.v1.train.CheckpointSaverListener`` objects of the chief.

    Raises:
        ValueError: `max_steps` is lower than 1.
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[v1.train.SessionRunHook] | None = None,
        saving_listeners: Iterable[v1.train.CheckpointSaverListener] | None = None,
    ) -> TrainSpec:
        _check_input_fn(input_fn)
        _input_pipelines.check_steps(max_steps=max_steps)
        listeners = tuple(saving_listeners or ())
        for listener in listeners:
            if not isinstance(listener, v1.train.CheckpointSaverListener):
                raise TypeError(
                    "All saving_listeners must be `CheckpointSaverListener` instances, given: "
                    f"{listener}"
                )
        return super().__new__(cls, input_fn, max_steps, checked_hooks(hooks), listeners)


class _EvalFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[v1.train.SessionRunHook, ...]
    exporters: tuple[()]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalFields):
    """How to evaluate. Mirrors ``tf.estimator.EvalSpec``.

    Args:
        input_fn: Function that returns the input; see `Estimator.train`.
        steps: Number of batches to evaluate; None for all.
        name: Name of the evaluation; see `Estimator.evaluate`.
        hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
        exporters: Must be None: call `Estimator.export_saved_model` after the training.
        start_delay_secs: Seconds that an evaluator waits before its first evaluation. It has no
            effect without an evaluator task.
        throttle_secs: Minimum number of seconds between the starts of two evaluations.

    Raises:
        ValueError: `steps` is lower than 1, a time is negative, or `exporters` are given.
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[v1.train.SessionRunHook] | None = None,
        exporters: None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        _check_input_fn(input_fn)
        _input_pipelines.check_steps(steps=steps)
        _input_pipelines.check_not_given("EvalSpec", exporters=exporters)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name!r}")
        delays = {"start_delay_secs": start_delay_secs, "throttle_secs": throttle_secs}
        for argument, secs in delays.items():
            if secs < 0:
                raise ValueError(f"Must specify {argument} >= 0, given: {secs}")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            checked_hooks(hooks),
            (),
            start_delay_secs,
            throttle_secs,
        )


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[str] | None] | None:
    """Trains and evaluates a model.

    Mirrors ``tf.estimator.train_and_evaluate``. Without a cluster in ``TF_CONFIG``, each new
    checkpoint is evaluated while the training waits, unless the last evaluation is less than
    `throttle_secs` ago; the last checkpoint is evaluated in any case.

    On a cluster, which `tf_condacc.cluster.start` joins, each task does its part, and all tasks
    share the folder of the Estimator:

    - The chief and the workers train. A task of type "master" is a chief that also evaluates, as
      without a cluster.
    - A parameter server serves until the training has ended, and then ends the process.
    - An evaluator evaluates new checkpoints until one is of step `max_steps`. Without `max_steps`
      it never ends. If no task is an evaluator or a master, nothing is evaluated; another chief
      logs a warning that says so.

    Args:
        estimator: The Estimator.
        train_spec: How to train.
        eval_spec: How to evaluate.

    Returns:
        Without a cluster, the metrics of the last evaluation and an empty list, in which
        ``tf.estimator`` has the results of exporters, or a pair of None if `max_steps` had been
        reached before. None on a cluster.

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
        return (evaluations.metrics, []) if evaluations.metrics else (None, None)
    with (
        cluster.start(session_config=_sessions.session_config(config)) as task,
        in_task(task),
    ):
        if config.task_type == "master":
            _train(estimator, train_spec, listener)
        else:
            evaluated = EVALUATOR_JOB in task.cluster_spec.jobs or _EVALUATED_BY_CALLER.get()
            if config.is_chief and not evaluated:
                _LOG.warning(_NO_EVALUATION)
            _train(estimator, train_spec)
    return None


@contextlib.contextmanager
def evaluated_by_caller() -> Iterator[None]:
    """Returns a context in which a chief does not warn that it only trains."""
    token = _EVALUATED_BY_CALLER.set(True)
    try:
        yield
    finally:
        _EVALUATED_BY_CALLER.reset(token)


class _Evaluations:
    """Evaluates the latest checkpoint of an Estimator, each checkpoint once.

    Args:
        estimator: The Estimator.
        spec: How to evaluate.
        max_steps: Global step at which training ends, or None.

    Attributes:
        metrics: What `Estimator.evaluate` returned last, or None.
    """

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._evaluated: str | None = None
        self.metrics: dict[str, Any] | None = None

    def run(self) -> dict[str, Any] | None:
        """Returns the metrics of the latest checkpoint; None if there is no new one."""
        checkpoint = self._estimator.latest_checkpoint()
        if checkpoint is None or checkpoint == self._evaluated:
            return None
        self.metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=checkpoint,
            hooks=self._spec.hooks,
        )
        self._evaluated = checkpoint
        return self.metrics

    def run_until_training_ends(self) -> None:
        """Evaluates each new checkpoint, up to that of the last step of the training."""
        time.sleep(self._spec.start_delay_secs)
        warned = False
        while True:
            begin = time.monotonic()
            metrics = self.run()
            if metrics and self._max_steps and metrics["global_step"] >= self._max_steps:
                return
            if metrics is None and not warned:
                _LOG.warning(
                    "There is no new checkpoint to evaluate in %s.", self._estimator.model_dir
                )
            warned = metrics is None
            rest = begin + self._spec.throttle_secs - time.monotonic()
            time.sleep(max(rest, 0 if metrics else _POLL_SECS))


class _EvaluatingListener(v1.train.CheckpointSaverListener):
    """Evaluates checkpoints as they are saved, and the last one at the end of training.

    The checkpoint that is saved before the first step is not evaluated.

    Args:
        evaluations: The evaluations.
        throttle_secs: Minimum number of seconds from one evaluation to the next.
    """

    def __init__(self, evaluations: _Evaluations, throttle_secs: float) -> None:
        self._evaluations, self._throttle_secs = evaluations, throttle_secs
        self._is_first = True
        self._last: float | None = None

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates the checkpoint, unless the last evaluation was too recent."""
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


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn!r}")
