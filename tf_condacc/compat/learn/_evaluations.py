"""Evaluations of checkpoints while a model trains, here or in another process."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import argument_names

_LOG = logging.getLogger("tf_condacc")
_SECS_BETWEEN_WARNINGS = 600

# The values of an evaluation, by their names.
Metrics: TypeAlias = dict[str, Any]
# A function of the result of an evaluation, and perhaps of `checkpoint_path`, that returns whether
# to go on.
Predicate: TypeAlias = Callable[..., bool]


class EvaluatingHook(v1.train.SessionRunHook):
    """Evaluates the latest checkpoint during a training, each one once.

    Args:
        evaluate: Function that evaluates the latest checkpoint.
        model_dir: Folder of the checkpoints.
        every_n_steps: Number of steps from one look for a checkpoint to the next.
        every_n_secs: Seconds from one look for a checkpoint to the next, at least.
    """

    def __init__(
        self,
        evaluate: Callable[[], Any],
        model_dir: str,
        every_n_steps: int,
        every_n_secs: float,
    ) -> None:
        self._evaluate, self._model_dir = evaluate, model_dir
        self._every_n_steps, self._every_n_secs = every_n_steps, every_n_secs
        self._step, self._last_step, self._next_time = 0, 0, -math.inf
        self._evaluated: str | None = None

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Reads the step at which the training begins."""
        self._step = int(session.run(v1.train.get_global_step()))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates the latest checkpoint if it is new, and step and time have come."""
        self._step += 1
        if self._step < self._last_step + self._every_n_steps:
            return
        self._last_step = self._step
        now = time.monotonic()
        if now < self._next_time:
            return
        self._next_time = now + self._every_n_secs
        latest = tf.train.latest_checkpoint(self._model_dir)
        if latest is not None and latest != self._evaluated:
            self._evaluated = latest
            self._evaluate()


class ExportingListener(v1.train.CheckpointSaverListener):
    """Evaluates and exports each checkpoint when it is saved.

    Args:
        evaluate: Function of the path of a checkpoint that evaluates and exports it.
        model_dir: Folder of the checkpoints.

    Attributes:
        result: What the function has returned last, or a pair of None.
    """

    def __init__(self, evaluate: Callable[[str], Any], model_dir: str) -> None:
        self._evaluate, self._model_dir = evaluate, model_dir
        self._evaluated: str | None = None
        self.result: Any = (None, None)

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates and exports the checkpoint, unless that has been done."""
        latest = tf.train.latest_checkpoint(self._model_dir)
        if latest is not None and latest != self._evaluated:
            self._evaluated = latest
            self.result = self._evaluate(latest)


def evaluate_new_checkpoints(
    evaluate: Callable[[str], Metrics],
    model_dir: str,
    throttle_secs: float,
    goes_on: Callable[[Metrics | None, str | None], bool],
    only_once: bool = True,
) -> None:
    """Evaluates the latest checkpoint again and again.

    Args:
        evaluate: Function of the path of a checkpoint that evaluates it.
        model_dir: Folder of the checkpoints.
        throttle_secs: Seconds from the beginning of one evaluation to that of the next, at least.
        goes_on: Function of the last result and of the checkpoint's path that returns whether to go
            on. The result is None at first, and empty if there was no new checkpoint.
        only_once: Whether to leave out a checkpoint that has just been evaluated.
    """
    metrics: Metrics | None = None
    previous: str | None = None
    warned = next_time = -math.inf
    while goes_on(metrics, previous if metrics else None):
        time.sleep(max(0.0, next_time - time.monotonic()))
        now = time.monotonic()
        next_time = now + throttle_secs
        latest = tf.train.latest_checkpoint(model_dir)
        if latest is not None and not (only_once and latest == previous):
            metrics = evaluate(latest) or {}
            previous, warned = latest, -math.inf
            continue
        metrics = {}
        if now > warned + _SECS_BETWEEN_WARNINGS:
            warned = now
            _LOG.warning("There is no new checkpoint to evaluate in %s.", model_dir)


def checked_predicate(
    predicate: Predicate | None,
) -> Callable[[Metrics | None, str | None], bool]:
    """Returns a function of a result and the path of a checkpoint.

    Args:
        predicate: Function of the result, and perhaps of `checkpoint_path`; None for no end.

    Raises:
        ValueError: It is not a function.
    """
    if predicate is None:
        return lambda metrics, path: True
    if not callable(predicate):
        raise ValueError(
            f"`continuous_eval_predicate_fn` must be a callable, or None; got {predicate!r}."
        )
    if "checkpoint_path" in argument_names(predicate):
        return lambda metrics, path: predicate(metrics, checkpoint_path=path)
    return lambda metrics, path: predicate(metrics)
