"""Merging of the evaluation metrics of all towers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.estimator._model_fn import SpecLike

_MISMATCH = "Different `EstimatorSpec.eval_metric_ops` across `model_fn()` calls."


def merge(
    specs: Sequence[SpecLike], variables: Sequence[Sequence[tf.Variable]], device: str
) -> dict[str, tuple[Any, tf.Operation]]:
    """Returns the metrics of the first tower, updated with the batches of all towers.

    The metrics share one update. It runs the updates of every tower, and then adds the metric
    variables of the other towers to those of the first tower and sets them to zero.

    Args:
        specs: Specs of the towers, with their `eval_metric_ops`.
        variables: The metric variables that each tower has made.
        device: Device on which the variables are added.

    Raises:
        ValueError: The towers do not have the same metrics.
    """
    _check_alike(specs, variables)
    updates = [update for spec in specs for _, update in (spec.eval_metric_ops or {}).values()]
    with v1.device(device), tf.control_dependencies(updates):
        update = tf.group(*[op for alike in zip(*variables, strict=True) for op in _gather(alike)])
    return {key: (value, update) for key, (value, _) in (specs[0].eval_metric_ops or {}).items()}


def _gather(variables: Sequence[tf.Variable]) -> list[tf.Operation]:
    """Returns operations that add all variables to the first, and set the others to zero.

    Reading a reference variable gives its memory and not a copy of its value. The variables are
    therefore set to zero after the addition.
    """
    first, *others = variables
    added = v1.assign_add(first, tf.add_n([variable.read_value() for variable in others]))
    with tf.control_dependencies([added]):
        return [v1.assign(variable, tf.zeros_like(variable)) for variable in others]


def _check_alike(specs: Sequence[SpecLike], variables: Sequence[Sequence[tf.Variable]]) -> None:
    first, num_first = set(specs[0].eval_metric_ops or {}), len(variables[0])
    total = sum(map(len, variables))
    for number, (spec, made) in enumerate(zip(specs, variables, strict=True)):
        if len(made) != num_first:
            expected = total - total % len(specs) if total % len(specs) else num_first * len(specs)
            raise ValueError(
                f"{_MISMATCH} Expected {expected} local variables, but got {total} instead. Tower "
                f"{number} made {len(made)}, tower 0 made {num_first}."
            )
        keys = set(spec.eval_metric_ops or {})
        if keys != first:
            raise ValueError(
                f"{_MISMATCH} Tower {number} has {sorted(keys)}, tower 0 has {sorted(first)}."
            )
        for ours, theirs in zip(variables[0], made, strict=True):
            if ours.dtype != theirs.dtype or not ours.shape.is_compatible_with(theirs.shape):
                raise ValueError(
                    f"{_MISMATCH} {theirs.name} of tower {number} has dtype "
                    f"{theirs.dtype.name} and shape {theirs.shape}, {ours.name} of tower 0 has "
                    f"{ours.dtype.name} and {ours.shape}."
                )
