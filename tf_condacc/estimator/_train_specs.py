"""The arguments of `train_and_evaluate`.

Mirrors ``tf.estimator.TrainSpec`` and ``tf.estimator.EvalSpec``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tensorflow.compat import v1

from tf_condacc.estimator import _input_pipelines
from tf_condacc.estimator._exporters import Exporter


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
        return super().__new__(
            cls, input_fn, max_steps, tuple(_input_pipelines.checked_hooks(hooks)), listeners
        )


class _EvalFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[v1.train.SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalFields):
    """How to evaluate and export. Mirrors ``tf.estimator.EvalSpec``.

    Args:
        input_fn: Function that returns the input; see `Estimator.train`.
        steps: Number of batches to evaluate; None for all.
        name: Name of the evaluation; see `Estimator.evaluate`.
        hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
        exporters: An `Exporter`, or several with different names, which export the model after each
            evaluation.
        start_delay_secs: Seconds that an evaluator waits before its first evaluation. It has no
            effect without an evaluator task.
        throttle_secs: Seconds from the beginning of one evaluation to that of the next, at least.

    Raises:
        ValueError: `steps` is lower than 1, a time is negative, or exporters have no name or the
            same.
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[v1.train.SessionRunHook] | None = None,
        exporters: Exporter | Iterable[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        _check_input_fn(input_fn)
        _input_pipelines.check_steps(steps=steps)
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
            tuple(_input_pipelines.checked_hooks(hooks)),
            _checked_exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn!r}")


def _checked_exporters(exporters: Any) -> tuple[Any, ...]:
    if not exporters:
        return ()
    each = (exporters,) if _is_exporter(exporters) else exporters
    each = tuple(each) if isinstance(each, Iterable) else ()
    if not each or not all(map(_is_exporter, each)):
        raise TypeError(
            "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found "
            f"{exporters!r}."
        )
    names = [exporter.name for exporter in each]
    if not all(name and isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(
            "`exporters` must have unique names, which are strings and not empty. All exporter "
            f"names: {names}"
        )
    return each


def _is_exporter(value: Any) -> bool:
    return hasattr(value, "name") and callable(getattr(value, "export", None))
