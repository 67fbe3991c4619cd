"""Building a model once for each of several devices.

Mirrors ``tf.contrib.estimator.replicate_model_fn``.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._typing import Nested
from tf_condacc.estimator import _specs
from tf_condacc.estimator.model_fn import ModeKeys, SpecLike
from tf_condacc.estimator.towers import (
    _batches,
    _calls,
    _deprecation,
    _devices,
    _graph_state,
    _joining,
    _variables,
)
from tf_condacc.estimator.towers.tower_optimizer import TowerOptimizer

v1 = tf.compat.v1


def replicate_model_fn(
    model_fn: Callable[..., SpecLike],
    loss_reduction: str | Callable[..., Any] | None = v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
    *,
    optimizer_fn: Callable[..., v1.train.Optimizer] | None = None,
) -> Callable[..., SpecLike]:
    """Replicates a `model_fn` over devices: each builds the model on its part of the batch.

    Mirrors ``tf.contrib.estimator.replicate_model_fn``. Variables are made by the first tower and
    shared by the others. Optimizers have to be wrapped in a `TowerOptimizer`, which applies the
    gradients of all towers at once.

    - Training: the loss is the sum of the towers' losses, each divided by their number unless
      `loss_reduction` is SUM. All else is that of the last tower's spec.
    - Evaluation: the loss likewise; metrics are those of the whole batch. All else is that of the
      first tower's spec.
    - Prediction: predictions and export outputs of the towers are concatenated; scalar export
      outputs are stacked, which makes a vector with an element for each tower. All else is that of
      the first tower's spec.

    Towers share the variables that are made by ``tf.compat.v1.get_variable``. A Keras layer or a
    ``tf.Variable`` that `model_fn` makes is a new one in each tower, and the towers then train
    separate models: a warning names the first such variable.

    The older form ``replicate_model_fn(model_fn, optimizer_fn, devices=None)`` is accepted too: the
    `train_op` of the specs is replaced by a step of that optimizer, and losses are summed.

    Args:
        model_fn: As of an Estimator. Returns an `EstimatorSpec`, or anything with its fields.
        loss_reduction: How the loss is reduced over the examples: a value of
            ``tf.compat.v1.losses.Reduction`` other than NONE.
        devices: Names of the devices, one for each tower. By default all GPUs of the process, or
            its CPUs if it has none.
        optimizer_fn: The older form's, by name: makes the optimizer; may take `params`.

    Returns:
        A `model_fn` with the arguments ``(features, labels, mode, params=None, config=None)``.

    Raises:
        ValueError: `loss_reduction` is NONE.
    """
    _deprecation.warn_once("replicate_model_fn")
    if callable(loss_reduction):
        loss_reduction, optimizer_fn = None, loss_reduction
    if optimizer_fn is not None:
        model_fn = _with_optimizer(model_fn, optimizer_fn)
        loss_reduction = v1.losses.Reduction.SUM
    if loss_reduction == v1.losses.Reduction.NONE:
        raise ValueError(
            "Tower losses need to be reduced in some way, yet none reduction is specified."
        )
    devices = list(devices) if devices else _devices.local_devices()
    variable_device = _devices.consolidation_device(devices)

    def replicated_model_fn(
        features: Nested, labels: Nested, mode: str, params: Any = None, config: Any = None
    ) -> SpecLike:
        call = functools.partial(model_fn, mode=mode, **_optional(model_fn, params, config))
        placements = [_devices.placing(device, variable_device) for device in devices]
        if len(placements) == 1:
            with _graph_state.replication(1, loss_reduction), v1.device(placements[0]):
                return _specs.checked(call(features=features, labels=labels), mode)
        _check_mode(mode)
        parts = _split(features, labels, len(devices), variable_device)
        with _graph_state.replication(len(devices), loss_reduction) as state:
            specs, metric_variables = _build_towers(state, call, mode, parts, placements)
            if mode == ModeKeys.TRAIN:
                return _joining.for_training(specs, variable_device)
        if mode == ModeKeys.EVAL:
            return _joining.for_evaluation(specs, metric_variables, variable_device)
        return _joining.for_prediction(specs, variable_device)

    return replicated_model_fn


def _split(
    features: Nested, labels: Nested, num_towers: int, device: str
) -> list[dict[str, Nested]]:
    if tf.executing_eagerly():
        raise RuntimeError(
            "replicate_model_fn builds a graph: tf.device does not support functions when eager "
            "execution is enabled."
        )
    parts = _batches.split((features, labels), num_towers, device)
    return [{"features": features, "labels": labels} for features, labels in parts]


def _build_towers(
    state: _graph_state.GraphState,
    call: Callable[..., SpecLike],
    mode: str,
    parts: Sequence[Mapping[str, Nested]],
    placements: Sequence[Callable[[tf.Operation], str]],
) -> tuple[list[SpecLike], list[list[tf.Variable]]]:
    """The towers' specs with their losses scaled, and the metric variables that each made."""
    keys = v1.GraphKeys
    specs, metric_variables, trainable_variables = [], [], []
    for part, placement in zip(parts, placements, strict=True):
        with (
            state.tower(),
            v1.device(placement),
            _variables.recorded(keys.METRIC_VARIABLES) as metric,
            _variables.recorded(keys.TRAINABLE_VARIABLES) as trainable,
        ):
            spec = _specs.checked(call(**part), mode, f"model_fn of tower {len(specs)}")
            if spec.train_op is not None and not state.has_been_used:
                raise ValueError(_calls.NOT_WRAPPED)
            if spec.loss is not None:
                spec = _specs.replace(spec, loss=state.scale_loss(spec.loss))
        specs.append(spec)
        metric_variables.append(metric)
        trainable_variables.append(trainable)
    _calls.check_finished(state.towers)
    _variables.warn_of_unshared(state.towers, trainable_variables)
    return specs, metric_variables


def _check_mode(mode: str) -> None:
    known = [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT]
    if mode not in known:
        raise ValueError(f"Expected mode to be one of {known}, got {mode!r}.")


def _with_optimizer(
    model_fn: Callable[..., SpecLike], optimizer_fn: Callable[..., v1.train.Optimizer]
) -> Callable[..., SpecLike]:
    """A model_fn whose train_op is a step of the optimizer."""

    @functools.wraps(model_fn)
    def model_fn_with_optimizer(
        features: Nested, labels: Nested, mode: str, params: Any = None, config: Any = None
    ) -> SpecLike:
        optional = _optional(model_fn, params, config)
        spec = model_fn(features=features, labels=labels, mode=mode, **optional)
        if mode != ModeKeys.TRAIN:
            return spec
        optimizer = TowerOptimizer(
            functools.partial(optimizer_fn, **_optional(optimizer_fn, params, config))
        )
        train_op = optimizer.minimize(spec.loss, global_step=v1.train.get_or_create_global_step())
        return _specs.replace(spec, train_op=train_op)

    del model_fn_with_optimizer.__wrapped__  # its own arguments are what counts
    return model_fn_with_optimizer


def _optional(function: Callable[..., Any], params: Any, config: Any) -> Mapping[str, Any]:
    """Copies of those of the two that the function has arguments for."""
    names = _specs.argument_names(function)
    given = {"params": params, "config": config}
    return {name: copy.deepcopy(value) for name, value in given.items() if name in names}
